"""Tests the run file: written values are read back, files of each schema keep their figures, and trials have the
loop, the strain of the machine and the usage of the trial's processes.
"""

from __future__ import annotations

import csv
import json
import re
from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from shell import TESTS, Ended, Shell, run_line, small

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Machine
from dyno.contracts.histogram import DIGITS, HIGHEST, LOWEST, PERCENTILES, curve, percentiles
from dyno.contracts.model import Caveat, Tier, UsageError
from dyno.fields import Sample
from dyno.measure.loop import native
from dyno.results import Attempt

pytestmark = pytest.mark.usefixtures("processes")

RUN = TESTS / "data" / "run-schema-3.json"
"""Written by dyno 0.1.0 as of schema 3: sqlite and lmdb, three blocks, four phases, of which one is cold."""


@pytest.mark.parametrize("schema", [0, 1, 2, 5, "3", None])
def test_unsupported_schema_error_lists_supported_schemas(schema: Any, tmp_path: Path) -> None:
    header, *lines = RUN.read_text().splitlines()
    file = tmp_path / "r.json"
    file.write_text("\n".join([json.dumps({**json.loads(header), "schema": schema}), *lines, ""]))
    with pytest.raises(UsageError) as caught:
        results.load(file)
    assert str(caught.value) == f"{file} has schema {schema}; this dyno reads 3 and 4"


# -- files of each schema -------------------------------------------------------------------------------------

LATENCIES = ("p50", "p90", "p95", "p99", "p999", "max")
# By engine and phase: median and ends of the interval, latencies in ns, bytes on disk and elapsed time.
FROZEN: dict[tuple[str, str], tuple[Any, ...]] = {
    ("lmdb", "rand-key"): (
        (572701.6052825997, 386919.6755762652, 776797.5940262899),
        (972, 1462, 1682, 2805, 14015, 14015),
        *(61440, 174611),
    ),
    ("sqlite", "mixed"): (
        (9613.111977117203, 1759.0340984511474, 43994.282811253506),
        (11271, 50943, 55999, 333311, 28590079, 28590079),
        *(1818624, 31207376),
    ),
    ("sqlite", "rand-key-cold"): (
        (105.10457169151303, 5.918083817592671, 5590.933834306848),
        (9314303, 15114239, 15114239, 15114239, 15114239, 15114239),
        *(73728, 9514334),
    ),
}


NEEDED = {"p90": 50, "p95": 100, "p99": 500, "p999": 5_000}
"""Operations of which five lie beyond a percentile."""


def known(figures: Mapping[str, int | None], count: int) -> dict[str, int | None]:
    """Returns the percentiles without those that need more than `count` operations."""
    return {name: ns if count >= NEEDED.get(name, 1) else None for name, ns in figures.items()}


@pytest.mark.parametrize(("engine", "phase"), FROZEN)
def test_stored_run_keeps_its_figures_in_every_form(shell: Shell, engine: str, phase: str) -> None:
    forms = [("--json",), ("--csv",), ("-o", "x.parquet")]
    shown = [shell.dyno("show", RUN, *form) for form in forms]
    assert [ended.status for ended in shown] == [0, 0, 0]
    (median, low, high), frozen, size, elapsed = FROZEN[engine, phase]

    cell = the_one(json.loads(shown[0].out)["cells"], engine, phase)
    assert (cell["throughput"]["median"], cell["throughput"]["unit"]) == (median, "op/s")
    # The interval is now computed in another way, so digits that are never shown may differ.
    assert [cell["throughput"][end] for end in ("low", "high")] == [near(low), near(high)]
    latencies = tuple(known(dict(zip(LATENCIES, frozen, strict=True)), cell["operations"]).values())
    assert (tuple(cell["latency_ns"][at] for at in LATENCIES)) == latencies
    assert (cell["bytes_on_disk"], cell["elapsed_ns"]) == (size, elapsed)

    row = the_one(parquet.read_table(shell.home / "x.parquet").to_pylist(), engine, phase)
    assert [row[f"throughput_{name}"] for name in cell["throughput"]] == list(cell["throughput"].values())
    assert tuple(row[f"latency_{at}_ns"] for at in LATENCIES) == latencies
    assert (row["bytes_on_disk"], row["elapsed_ns"]) == (size, elapsed)

    line = the_one(list(csv.DictReader(shown[1].out.splitlines())), engine, phase)
    lists = ("caveats", "doubts")
    assert {name: text for name, text in line.items() if name not in lists} == {
        name: "" if value is None else str(value) for name, value in row.items() if name not in lists
    }


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-3)


def the_one(rows: list[dict[str, Any]], engine: str, phase: str) -> dict[str, Any]:
    (found,) = (row for row in rows if (row["engine"], row["phase"]) == (engine, phase))
    return found


def test_schema_3_run_is_read_completely() -> None:
    run = results.load(RUN)
    assert run.header.schema == 3 and run.complete
    assert [cell.asked for cell in run.cells if not cell.floor] == ["sqlite", "lmdb"]
    assert [len(attempt.samples) for attempt in run.attempts] == [len(run.plan.phases)] * 12
    for attempt in run.attempts:
        assert attempt.loop and attempt.loop["operation_ns"] > 0
        assert attempt.strain["elapsed_ns"] == attempt.duration_ns
        if not run.cells[attempt.cell].floor:
            cold = next(sample for sample in attempt.samples if sample.phase == "rand-key-cold")
            assert cold.temperature == {"sqlite": "cold", "lmdb": "lukewarm"}[run.cells[attempt.cell].engine]
            assert cold.residency and cold.residency["resident_bytes"] == 0
            assert cold.client and cold.client["user_ns"]


def test_future_schema_is_refused_in_one_line(shell: Shell) -> None:
    header, *lines = RUN.read_text().splitlines()
    shell.file.write_text("\n".join([json.dumps({**json.loads(header), "schema": 99, "cells": {}}), *lines, ""]))
    for form in ((), ("--json",), ("-o", "x.parquet")):
        ended = shell.dyno("show", shell.file, *form)
        assert (ended.status, ended.out) == (2, "")
        assert re.fullmatch(rf"dyno: {shell.file} has schema 99; this dyno reads .*\n", ended.err)
    assert [path.name for path in shell.home.iterdir()] == [shell.file.name]


# -- histograms are read as HdrHistogram's library reads them --------------------------------------------------

COUNTS = st.dictionaries(st.integers(LOWEST, HIGHEST), st.integers(1, 10**12), min_size=1, max_size=60)


def library(counts: dict[int, int]) -> HdrHistogram:
    histogram = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    for value, count in counts.items():
        assert histogram.record_value(value, count)
    return histogram


def value_at(histogram: HdrHistogram, percentile: float) -> int:
    """The least value that at least so many percent of the operations do not exceed. The library's own percentiles
    are those of a rank that is rounded to the nearest."""
    needed = Fraction(str(percentile)) * histogram.get_total_count() / 100
    counts = np.array(histogram.counts)
    index = next(at for at in np.flatnonzero(counts).tolist() if counts[: at + 1].sum() >= needed)
    return int(histogram.get_highest_equivalent_value(histogram.get_value_from_index(index)))


@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_percentiles_match_the_hdrhistogram_library(parts: list[dict[int, int]]) -> None:
    encoded = [library(part).encode() for part in parts]
    merged = HdrHistogram(LOWEST, HIGHEST, DIGITS)
    for text in encoded:
        merged.decode_and_add(text)
    wanted: dict[str, int | None] = {name: value_at(merged, percentile) for name, percentile in PERCENTILES.items()}
    wanted = known({**wanted, "max": merged.get_max_value()}, merged.get_total_count())
    assert percentiles([None, *map(a2b_base64, encoded)]) == wanted


@pytest.mark.parametrize("total", [*range(1, 60), 999, 1000, 1001, 20_000, 123_457, 10**9])
def test_percentile_ranks_are_exact_for_any_count(total: int) -> None:
    """At these counts an error of one in the rank changes the value."""
    many, rest = divmod(total, 50)
    histogram = library({1000 + at: count for at in range(50) if (count := many + (at < rest))})
    encoded = a2b_base64(histogram.encode())
    wanted = {name: value_at(histogram, percentile) for name, percentile in PERCENTILES.items()}
    assert dict(curve([encoded], list(PERCENTILES.values()), 0)) == {PERCENTILES[n]: ns for n, ns in wanted.items()}
    shown = percentiles([encoded])
    assert {name: shown[name] for name in PERCENTILES} == known(wanted, total)


@pytest.mark.parametrize(
    "whole",
    [
        b"",
        b"HIST",
        b"nothing of the kind",
        a2b_base64(library({5: 1}).encode())[:-8],
        a2b_base64(library({5: 1}).encode().replace(b"HISTF", b"HISTX")),
        a2b_base64(HdrHistogram(1, 1000, 2).encode()),
    ],
    ids=["empty", "short", "junk", "cut", "of another kind", "of another range"],
)
def test_invalid_histogram_is_refused(whole: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not a histogram: "):
        percentiles([whole])


# -- written values are read back -----------------------------------------------------------------------------

MACHINE = Machine(
    clients=2,
    processes=1,
    cores=1.5,
    operations=3,
    elapsed_ns=1000,
    cpu_ns=5,
    late_p99_ns=4,
    response_p99_ns=6,
    round_trip_ns=7,
    offset_ns=-8,
    uncertainty_ns=9,
    skew_ns=0,
)
HISTOGRAM = a2b_base64(library({5: 3}).encode())
SAMPLE = Sample(
    phase="rand-key",
    unit="op",
    operations=3,
    items=2,
    elapsed_ns=1000,
    busy_ns=900,
    errors=1,
    ended_by="duration",
    checked=2,
    clients=2,
    threads=True,
    load="native",
    load_processes=1,
    least_served=1,
    fair_share=2,
    wall_ns=1500,
    pause_cpu_ns=7,
    due=4,
    bytes=512,
    reported_by="tool 1.0",
    by_part={"dns": HISTOGRAM, "connect": None},
    first_error="OSError: no",
    histogram=HISTOGRAM,
    slowest_at_ns=400,
    by_kind={"get": HISTOGRAM, "update": None},
    response=HISTOGRAM,
    late=HISTOGRAM,
    series=({"from_ns": 0, "interval_ns": 10**9, "operations": 3, "p50_ns": 5, "p99_ns": 7},),
    temperature="lukewarm",
    residency={"file_bytes": 4096, "resident_bytes": None, "evicted_by": "files"},
    client={"user_ns": 5, "read_bytes": None},
    server={"user_ns": 6},
    client_peak_bytes=9 << 20,
    server_peak_bytes=8 << 20,
    device={"read_bytes": None, "written_bytes": 512},
    bytes_on_disk=4096,
    settled=False,
    written_bytes=8192,
    judged=40,
    broken={"p99<5ms": 3},
    maintenance={"checkpoint": 1, "merge": None},
    counters={"blks_hit": 12},
    machines={"b": Machine({**MACHINE, "cpu_ns": None}), "c": MACHINE},
    by_machine={"b": HISTOGRAM, "c": None},
    facts={"ratio": 1.5, "entries": 49, "library": "zlib 1.3", "cost": None},
    payload_bytes=300,
)
ATTEMPT = Attempt(
    cell=0,
    block=1,
    attempt=2,
    outcome="crash",
    why="killed by SIGSEGV",
    phase="scan",
    samples=(SAMPLE, replace(SAMPLE, phase="scan", void="wrong", series=())),
    started="2026-01-01T00:00:00+00:00",
    duration_ns=5,
    version="1",
    settings={"a": None},
    tier=Tier.PROCESS,
    caveats=(Caveat("code", "text"),),
    resources={"client": {"user_ns": 5}, "server": None, "peak_anonymous_bytes": None},
    output="printed",
    loop={"name": "native", "clock": "c", "operation_ns": 17.5, "span_ns": 9.0},
    absent={"scan-cold": "why"},
    facts={"seeks": 3, "unknown": None},
    spent_ns={"timed": 5},
    strain={"steal_percent": 0.5, "throttled_ns": None},
    stage="confirm",
    rate=1_234.5,
)
CELL = Cell("records", "lmdb", {"readahead": False}, Tier.POWER, {"records": 5, "rate": 100.0, "clients": 2})
PLAN = {"suite": "records", "phases": ["rand-key", "scan", "scan-cold"], "samples": 2, "seed": 1, "budget": 1.0}
HEADER = {"plan": PLAN, "host": {}}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "r.json"
    results.create(file, HEADER, [CELL])
    results.append(file, ATTEMPT)
    return file


def test_run_file_round_trips_every_field(written: Path) -> None:
    for one in (SAMPLE, ATTEMPT):
        plain = [f.name for f in fields(one) if f.name not in ("void", "bulk") and not getattr(one, f.name)]
        assert plain in ([], ["settled"], ["cell"]), "every field has a value that is not its default"
    run = results.load(written)
    assert run.header.schema == 3
    assert run.cells == (CELL,)
    assert run.attempts == (ATTEMPT,)


def test_unknown_trial_fields_are_ignored(written: Path) -> None:
    header, line = written.read_text().splitlines()
    trial = json.loads(line)
    trial["later"] = 1
    trial["samples"][0]["later"] = 2
    written.write_bytes(header.encode() + b"\n" + run_line(trial))
    assert results.load(written).attempts == (ATTEMPT,)


# -- schema 3, as a run writes it -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Shell]:
    home = tmp_path_factory.mktemp("ran")
    shell = Shell(home, home / "work")
    plan = small(samples=1, phases="insert-blind-indices,rand-key,scan-cold")
    return shell.dyno("run", "records", "-e", "sqlite,memory", *plan, "-o", shell.file), shell


Ran = tuple[Ended, Shell]


@pytest.mark.claim("A run records which loop measured, by which clock, and at what cost")
def test_trial_records_its_measuring_loop(ran: Ran) -> None:
    for attempt in ran[1].attempts():
        loop = attempt["loop"]
        assert set(loop) == {"name", "clock", "python", "operation_ns", "span_ns"}
        assert loop["name"] == ("python" if native() is None else "native")
        assert loop["operation_ns"] > 0
        assert 0 <= loop["span_ns"] <= loop["operation_ns"]


@pytest.mark.claim("A run records which loop measured, by which clock, and at what cost")
def test_requested_loop_is_used_and_recorded(shell: Shell) -> None:
    shell.dyno("run", "records", "-e", "memory", *small(samples=1, loop="python"), "-o", shell.file)
    assert {attempt["loop"]["name"] for attempt in shell.attempts()} == {"python"}
    assert {attempt["loop"]["clock"] for attempt in shell.attempts()} == {"monotonic clock"}
    assert json.loads(shell.file.read_text().splitlines()[0])["plan"]["loop"] == "python"


def test_trial_records_machine_strain(ran: Ran) -> None:
    for attempt in ran[1].attempts():
        assert set(attempt["strain"]) == {
            "steal_percent",
            "swapped_in_bytes",
            "swapped_out_bytes",
            "memory_stall_ns",
            "io_stall_ns",
            "cpu_stall_ns",
            "throttled_ns",
            "thermal_throttles",
            "elapsed_ns",
        }
        assert attempt["strain"]["elapsed_ns"] == attempt["duration_ns"]


def test_trial_records_resources_of_its_processes(ran: Ran) -> None:
    for attempt in ran[1].attempts():
        assert set(attempt["resources"]) == {"client", "server", "peak_anonymous_bytes"}
        used = attempt["resources"]["client"]
        assert attempt["resources"]["server"] is None
        assert set(used) == {
            "user_ns",
            "system_ns",
            "voluntary_switches",
            "involuntary_switches",
            "major_faults",
            "asked_bytes",
            "read_bytes",
            "written_bytes",
            "core_wait_ns",
            "minor_faults",
            "read_calls",
            "write_calls",
            "device_wait_ns",
            "peak_resident_bytes",
        }
        for sample in attempt["samples"]:
            assert set(sample["client"]) == set(used) - {"peak_resident_bytes"}
            assert sample["server"] is None
            assert 0 <= sample["client"]["user_ns"] <= used["user_ns"]
            assert set(sample["device"]) == {"read_bytes", "written_bytes"}


@pytest.mark.parametrize("clients", [1, 3])
def test_client_resources_are_recorded_per_phase_and_trial(shell: Shell, clients: int) -> None:
    """`burner` takes 2 ms of CPU time for each of 300 gets, and as much in the untimed round before."""
    shell.plugins = [TESTS / "plugins" / "lively"]
    shell.dyno("run", "records", "-e", "burner", *small(samples=1, clients=clients), "-o", shell.file)
    (attempt,) = shell.attempts("burner")
    (sample,) = attempt["samples"]
    asked, whole = 300 * 2_000_000, attempt["resources"]["client"]
    assert asked <= cpu_ns(sample["client"]) < 1.5 * asked
    assert cpu_ns(whole) >= 2 * asked
    assert all(whole[name] >= sample["client"][name] for name in ("voluntary_switches", "major_faults"))


def cpu_ns(used: dict[str, int]) -> int:
    return used["user_ns"] + used["system_ns"]


def test_absent_phase_has_a_reason_and_no_sample(ran: Ran) -> None:
    (memory,), (sqlite,) = (ran[1].attempts(engine) for engine in ("memory", "sqlite"))
    assert list(memory["absent"]) == ["scan-cold"]
    assert [sample["phase"] for sample in memory["samples"]] == ["insert-blind-indices", "rand-key"]
    assert sqlite["absent"] == {}
    assert [sample["phase"] for sample in sqlite["samples"]] == ["insert-blind-indices", "rand-key", "scan-cold"]


def test_unmeasured_fields_are_null(ran: Ran) -> None:
    """A closed loop has no response times; a phase of less than a second has no series."""
    for attempt in ran[1].attempts():
        for sample in attempt["samples"]:
            assert (sample["response"], sample["late"], sample["series"]) == (None, None, [])
            assert (sample["residency"] is None) == (sample["temperature"] not in ("cold", "lukewarm"))
            assert (sample["settled"] is None) == (sample["phase"] != "insert-blind-indices")
