"""Tests that all reports of a run agree with each other, and that none compares rows that must not be compared.

Covers rule 3 of the measuring (tiers are never mixed in a table), aligned tables, floors in the last lines, response
times beside service times, CSV and Markdown that can be parsed, and the JSON that DESIGN.md specifies. Runs come from
one stored run file. Tests that need exact figures insert them, so that no result depends on
a clock.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
from madeup import changed, recorded, written
from rich.console import Console
from runfiles import measured_records
from shell import Shell

from dyno import results
from dyno.contracts.decoded_types import Loop, Point, Residency
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Tier
from dyno.fields import LATENCIES, Sample
from dyno.report import export
from dyno.report.page.payload import results as on_page
from dyno.report.tables import text, units
from dyno.report.tables.table import groups, has_server
from dyno.report.tables.text import as_markdown
from dyno.results import Attempt, Run

PHASES = ("insert-blind-indices", "rand-key", "mixed")
# Operations per second of each engine, which determine the ranks. Null engines are the fastest.
RATES = {"lmdb": 2e3, "sqlite": 3e4, "leveldb": 500.0, "memory": 1e5, "null": 9e5, "nullkv": 8e5}
TIERS = {"memory": "volatile", "lmdb": "process", "sqlite": "process", "leveldb": "process"}
WIDE = 300


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run of four engines at two tiers, with null engines at both; two samples of three phases."""
    found = measured_records(("lmdb", "sqlite", "leveldb", "memory"), PHASES, blocks=2)
    return results.load(written(found, tmp_path_factory.mktemp("report") / "r.json"))


def at_rate(name: str, sample: Sample) -> Sample:
    elapsed = int(sample.items / RATES[name] * 1e9)
    return replace(sample, elapsed_ns=elapsed, busy_ns=elapsed)


@pytest.fixture(scope="module")
def run(measured: Run) -> Run:
    """Copy of `measured` with known rates."""
    return changed(measured, at_rate)


def void(run: Run, engine: str, why: str, phase: str = "rand-key") -> Run:
    def spoil(name: str, sample: Sample) -> Sample:
        return replace(sample, void=why) if (name, sample.phase) == (engine, phase) else sample

    return changed(run, spoil)


def open_loop(run: Run) -> Run:
    """Returns the run as if it had a fixed rate. Each operation except bulk calls ended 2 ms after it was due; 30 µs
    of this were its service time and 4 µs Dyno's lateness."""
    late: dict[str, Any] = {"histogram": recorded(30_000), "response": recorded(2_000_000), "late": recorded(4_000)}
    return changed(run, lambda name, sample: sample if sample.bulk else replace(sample, **late))


def using(run: Run, **server_ns: int | None) -> Run:
    """Returns the run with 28.4 µs of the client's CPU time per item. The named engines have a server that used this
    CPU time per item, or with None too little for the kernel's ticks."""

    def used(name: str, sample: Sample) -> Sample:
        client = {**dict.fromkeys(USED, 0), "user_ns": sample.items * 20_000, "system_ns": sample.items * 8_400}
        served = server_ns.get(name, 0)
        server = (
            None if name not in server_ns else {**client, "user_ns": (served or 0) * sample.items, "system_ns": 0}
        )
        return replace(sample, client=client, server=server)

    return changed(run, used)


def absent(run: Run, engine: str, phase: str, why: str) -> Run:
    """Returns the run as if the phase made no sense for the engine."""

    def attempt(found: Attempt) -> Attempt:
        if run.cells[found.cell].engine != engine:
            return found
        return replace(found, absent={phase: why}, samples=tuple(s for s in found.samples if s.phase != phase))

    return replace(run, attempts=tuple(attempt(found) for found in run.attempts))


def by_loops(run: Run, *loops: Loop) -> Run:
    """Returns the run as if these loops had measured its trials, in turn."""
    told = [replace(found, loop=loops[at % len(loops)]) for at, found in enumerate(run.attempts)]
    return replace(run, attempts=tuple(told))


NATIVE = Loop(name="native", clock="time-stamp counter", operation_ns=51.6, span_ns=30.0)
PYTHON = Loop(name="python", clock="monotonic clock", operation_ns=204.0, span_ns=80.0)


# -- text -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table of the printed text."""

    phase: str
    tier: str
    head: str
    lines: list[str]

    def column(self, name: str) -> tuple[int, int]:
        """Returns where the heading starts and ends."""
        found = re.search(rf"(?<!\S){re.escape(name)}(?!\S)", self.head)
        assert found, (name, self.head)
        return found.span()

    @property
    def unit(self) -> str:
        return next(word for word in self.head.split() if word.endswith("/s"))

    def names(self) -> list[str]:
        return [re.split(r"\s{2,}", line)[0] for line in self.lines]

    def under(self, name: str) -> list[str]:
        """Returns the words that end where a right-justified heading ends."""
        _, end = self.column(name)
        return [re.split(r"\s{2,}", line[:end])[-1] for line in self.lines]


def engines(table: Table) -> set[str]:
    return {name for name in table.names() if "(floor)" not in name}


def printed(run: Run, width: int = WIDE) -> str:
    out = io.StringIO()
    text.render(run, Console(file=out, width=width, highlight=False), whole=True)
    return out.getvalue()


def tables(shown: str) -> list[Table]:
    found = []
    for title in re.finditer(r"^(\S+)  tier (\w+): .*\n(engine .*)\n((?:\S.*\n)+)", shown, re.MULTILINE):
        phase, tier, head, lines = title.groups()
        found.append(Table(phase, tier, head, lines.splitlines()))
    return found


@pytest.mark.claim("Tiers are not ranked together")
def test_each_phase_and_tier_has_its_own_table(run: Run) -> None:
    found = tables(printed(run))
    assert [(table.phase, table.tier) for table in found] == [
        (phase, tier) for phase in PHASES for tier in ("volatile", "process")
    ]
    for table in found:
        own = {name for name, tier in TIERS.items() if tier == table.tier}
        assert engines(table) == own
        assert "null (floor)" in table.names()
        assert len(table.lines) == len(own) + sum("(floor)" in name for name in set(table.names()))


@pytest.mark.claim("Every run has a floor")
def test_the_best_stands_first_and_the_floor_last(run: Run) -> None:
    for table in tables(printed(run)):
        wanted = ["memory"] if table.tier == "volatile" else ["sqlite", "lmdb", "leveldb"]
        names = table.names()
        assert names[: len(wanted)] == wanted
        assert all(name.endswith(" (floor)") for name in names[len(wanted) :]), "whatever its figure"


def test_columns_are_aligned_across_all_tables(run: Run) -> None:
    first, *others = tables(printed(run))
    for table in others:
        for name in ("engine", "remarks"):
            assert table.column(name)[0] == first.column(name)[0], name
        for name in ("time", "[95 %]", "p50", "p99", "on disk"):
            assert table.column(name)[1] == first.column(name)[1], name
        assert table.column(table.unit)[1] == first.column(first.unit)[1]
    assert {table.unit for table in (first, *others)} == {"key/s", "op/s"}


def test_figures_end_where_their_heading_ends(run: Run) -> None:
    for table in tables(printed(run)):
        for name in ("time", table.unit, "[95 %]", "p50", "p99", "on disk"):
            _, end = table.column(name)
            for line in table.lines:
                assert not line[end - 1].isspace(), (name, line)
                assert line[end : end + 2].strip() == "", (name, line)


def test_figures_are_those_of_the_run(run: Run) -> None:
    for table in tables(printed(run)):
        for name, figure in zip(table.names(), table.under(table.unit), strict=True):
            assert float(figure.replace(",", "")) == pytest.approx(RATES[name.split()[0]], rel=1e-3)


def test_row_without_figure_ranks_last_and_states_reason(run: Run) -> None:
    spoilt = void(run, "sqlite", "record 3: got None, expected {'name': 'x'}")
    shown = printed(spoilt)
    (table,) = (table for table in tables(shown) if (table.phase, table.tier) == ("rand-key", "process"))
    assert table.names()[:4] == ["lmdb", "leveldb", "sqlite", "null (floor)"]
    assert table.under(table.unit)[2] == "void"
    why = "sqlite, rand-key, tier process: void: record 3: got None, expected {'name': 'x'}"
    assert f"No number\n  {why}\n" in shown
    (other,) = (table for table in tables(shown) if (table.phase, table.tier) == ("mixed", "process"))
    assert other.names()[0] == "sqlite", "other phases keep their numbers"


def test_every_remark_is_explained_below(run: Run) -> None:
    shown = printed(run)
    legend = shown.partition("\nRemarks\n")[2].partition("\n\n")[0]
    codes = {doubt.code for group in groups(run) for row in group.rows for doubt in row.doubts}
    caveats = {caveat.code for group in groups(run) for row in group.rows for caveat in row.summary.caveats}
    assert "few" in codes
    assert "floor" in caveats
    for code in codes | caveats:
        assert re.search(rf"^  {re.escape(code)}\b", legend, re.MULTILINE), code


def test_response_time_columns_appear_only_in_open_loop(run: Run) -> None:
    assert "resp" not in printed(run)
    for table in tables(printed(open_loop(run))):
        assert re.search(r"p50 +p99 +max +resp p50 +resp p99 +(memory +)?on disk +remarks$", table.head.strip())
        if table.phase != "insert-blind-indices":
            assert set(table.under("p50")) == set(table.under("p99")) == {"30.0 µs"}, "service time"
            assert set(table.under("resp p50")) == set(table.under("resp p99")) == {"2.00 ms"}


@pytest.mark.parametrize(("operations", "far"), [(99_000, "–"), (100_000, "50.0 µs")])
def test_max_is_always_shown_p9999_given_enough_operations(run: Run, operations: int, far: str) -> None:
    """The trials of a row are merged. In one of them, an operation takes 4 s."""
    recorder = Recorder()
    recorder.add_many(50_000, operations // 2)

    def slow(attempt: Attempt) -> Attempt:
        stalled = Recorder()
        stalled.add_many(4 * 10**9, int(attempt.block == 0))
        stalled.merge(recorder)
        return replace(attempt, samples=tuple(replace(s, histogram=stalled.encode()) for s in attempt.samples))

    two = replace(run, attempts=tuple(slow(a) for a in run.attempts if a.block < 2))
    for table in tables(printed(two)):
        assert set(table.under("max")) == {"4.00 s"}
        assert ("p99.99" in table.head) is (far != "–")
        if far != "–":
            assert set(table.under("p99.99")) == {far}


def test_bulk_call_has_empty_response_time_columns(run: Run) -> None:
    for table in tables(printed(open_loop(run))):
        if table.phase == "insert-blind-indices":
            start = table.column("resp p50")[0]
            assert all(line[start : table.column("resp p99")[1]].strip() == "" for line in table.lines)


def test_measuring_loop_is_printed_with_its_cost(run: Run) -> None:
    native = [Loop({**NATIVE, "operation_ns": cost_ns}) for cost_ns in (51.6, 48.0, 90.0)]
    assert "\nMeasured by the native loop (time-stamp counter, 52 ns an operation)\n" in printed(
        by_loops(run, *native)
    )
    both = printed(by_loops(run, NATIVE, PYTHON))
    wanted = (
        "the native loop (time-stamp counter, 52 ns an operation) and the python loop (monotonic clock, 204 ns an"
    )
    assert f"\nMeasured by {wanted} operation)\n" in both
    assert "Measured by" not in printed(replace(run, attempts=tuple(replace(a, loop=None) for a in run.attempts)))


def test_measuring_loop_of_real_run_is_printed(measured: Run) -> None:
    assert re.search(r"^Measured by the (native|python) loop \(.*, \d+ ns an operation\)$", printed(measured), re.M)


SERVED = {"sqlite": 5_140_000, "lmdb": None}
CPU = "cpu: CPU time of all threads, for each item that the throughput counts"


@pytest.mark.claim("CPU time is shown beside every throughput")
def test_cpu_time_per_item_follows_throughput(run: Run) -> None:
    shown = printed(using(run))
    assert CPU in shown and "client, server:" not in shown
    for table in tables(shown):
        assert re.search(r"/s +\[95 %\] +cpu +p50 +p99 ", table.head)
        assert set(table.under("cpu")) == {"28 µs"}


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        *((None, "–"), (0.004, "0.004 ns"), (0.994, "0.99 ns"), (0.996, "1.0 ns"), (9.94, "9.9 ns"), (9.96, "10 ns")),
        *(
            (129.4, "129 ns"),
            (999.4, "999 ns"),
            (999.6, "1.0 µs"),
            (28_400, "28 µs"),
            (5_140_000, "5.1 ms"),
            (2e9, "2.0 s"),
        ),
    ],
)
def test_cpu_time_has_two_digits_or_whole_units(ns: float | None, shown: str) -> None:
    assert units.cpu_time(ns) == shown


@pytest.mark.claim("CPU time is shown beside every throughput")
def test_server_cpu_time_stands_beside_client_cpu_time(run: Run) -> None:
    """Without a server the cell is empty. A server that used too little for the kernel's ticks has a dash."""
    shown = printed(using(run, **SERVED))
    assert CPU not in shown and "  client, server: CPU time of their processes" in shown
    for table in tables(shown):
        assert re.search(r"/s +\[95 %\] +client +server +p50 +p99 ", table.head)
        assert set(table.under("client")) == {"28 µs"}
        start, end = table.column("client")[1], table.column("server")[1]
        found = {name: line[start:end].strip() for name, line in zip(table.names(), table.lines, strict=True)}
        assert {name: cost for name, cost in found.items() if cost} == (
            {"sqlite": "5.1 ms", "lmdb": "–"} if table.tier == "process" else {}
        )


def test_row_without_figure_has_no_cpu_time(run: Run) -> None:
    for table in tables(printed(void(using(run, **SERVED), "sqlite", "wrong"))):
        if (table.phase, table.tier) == ("rand-key", "process"):
            (line,) = (line for line in table.lines if line.startswith("sqlite"))
            assert "µs" not in line and "ms" not in line


def test_page_cpu_column_headings_name_the_unit(run: Run) -> None:
    for server in ({}, SERVED):
        found = using(run, **server)
        for group in groups(found):
            shown = on_page(group, [], {}, has_server(groups(found)))
            unit = "key" if group.phase == "insert-blind-indices" else "op"
            whose = ("client ", "server ") if server else ("",)
            # Columns that no row of a table has are left out: no engine of tier volatile has a server.
            heads = [f"{who}CPU/{unit}" for who in whose if who != "server " or group.tier is Tier.PROCESS]
            assert [head for head in shown.heads if "CPU" in head] == heads
            found_at = [shown.heads.index(head) for head in heads]
            figures = {row.name: [row.figures[at] for at in found_at] for row in shown.rows}
            assert shown.floors.startswith("Floors, which do nothing: null ") and "null (floor)" not in figures
            if group.tier is Tier.PROCESS:
                assert figures["sqlite"] == ["28 µs", "5.1 ms"][: len(heads)]


def with_peaks(run: Run, **server_bytes: int) -> Run:
    """Returns the run with 150 MiB of peak memory of the clients, and with these bytes of the named engines'
    servers."""
    return changed(
        run, lambda name, s: replace(s, client_peak_bytes=150 << 20, server_peak_bytes=server_bytes.get(name))
    )


MEMORY = "memory: the most that was resident during the phase"


@pytest.mark.claim("Peak memory is that of a phase, for clients and server apart")
def test_peak_memory_column_appears_only_if_measured(run: Run) -> None:
    old = printed(changed(run, lambda _, s: replace(s, client_peak_bytes=None)))
    assert MEMORY not in old and not any(" memory" in table.head for table in tables(old))
    shown = printed(with_peaks(run))
    assert MEMORY in shown
    for table in tables(shown):
        assert set(table.under("memory")) == {"150 MiB"}
    for table in tables(printed(with_peaks(using(run, **SERVED), sqlite=64 << 20))):
        assert set(table.under("client mem")) == {"150 MiB"}
        assert ("64.0 MiB" in table.under("server mem")) is (table.tier == "process")


def test_markdown_page_and_json_have_peak_memory(run: Run) -> None:
    shown = with_peaks(using(run, **SERVED), sqlite=64 << 20)
    for table, group in zip(markdown_tables(shown), groups(shown), strict=True):
        heads = ["client memory", "server memory"][: 2 if group.tier is Tier.PROCESS else 1]
        assert [head for head in table[0] if head.endswith("memory")] == heads
        assert [head for head in on_page(group, [], {}, True).heads if head.endswith("memory")] == heads
    assert plain(shown)["cells"][0]["client_peak_bytes"] == 150 << 20


def test_absent_phase_has_no_row_but_a_reason(run: Run) -> None:
    why = "keeps nothing in files, so that it can't be cold"
    shown = printed(absent(run, "lmdb", "rand-key", why))
    assert shown.count(f"Not measured\n  rand-key: lmdb {why}\n") == 1
    for table in tables(shown):
        assert ("lmdb" in table.names()) is (table.tier == "process" and table.phase != "rand-key")
    assert "No number" not in shown
    assert "Not measured" not in printed(run)


def test_absent_phase_is_listed_once_per_engine(run: Run) -> None:
    # The null engine has a row at each tier, but is named once.
    shown = printed(absent(run, "null", "mixed", "does nothing"))
    assert shown.partition("Not measured\n")[2].partition("\n\n")[0] == "  mixed: null does nothing"


def at_cold(run: Run, client: int | None, server: int | None = 0, temperature: str = "cold") -> list[str]:
    """Returns the remarks of a row for which this many bytes were read from the device; `server=0`: no server."""
    used: dict[str, Any] = {"temperature": temperature, "client": {"read_bytes": client}}
    used["server"] = None if server == 0 else {"read_bytes": server}
    spoilt = changed(run, lambda name, sample: replace(sample, **used))
    (row,) = (r for group in groups(spoilt) for r in group.rows if (r.name, group.phase) == ("lmdb", "rand-key"))
    return row.remarks()


def test_cold_phase_remark_states_bytes_read(run: Run) -> None:
    assert "read 1.20MiB" in at_cold(run, 12 * 2**20 // 10)
    assert "read 3.00MiB" in at_cold(run, 2**20, 2 * 2**20), "by client and server"
    assert "read 0B" in at_cold(run, 0)
    for unknown in ((None, 0), (None, 2**20), (2**20, None)):
        assert "read –" in at_cold(run, *unknown), "not zero, and no part for the whole"


@pytest.mark.parametrize("temperature", ["hot", "lukewarm", "none"])
def test_read_remark_is_absent_unless_phase_is_cold(run: Run, temperature: str) -> None:
    assert not any(remark.startswith("read ") for remark in at_cold(run, 2**20, temperature=temperature))


def test_incomplete_run_states_how_many_trials_ended(run: Run) -> None:
    assert "Not complete" not in printed(run)
    cut = replace(run, attempts=run.attempts[:-1])
    assert f"Not complete: {len(run.attempts) - 1} trials of {len(run.attempts)} have ended" in printed(cut)
    nothing = replace(run, attempts=())
    assert f"Not complete: 0 trials of {len(run.attempts)} have ended" in printed(nothing)
    assert all(set(table.under(table.unit)) == {"not"} for table in tables(printed(nothing))), "not measured yet"


# -- JSON -----------------------------------------------------------------------------------------------------

# Keys that DESIGN.md specifies under "The command line".
KEYS = {
    *("suite", "engine", "phase", "params", "tier", "valid", "why", "samples", "operations"),
    *("throughput", "latency_ns", "bytes_on_disk", "caveats"),
}
THROUGHPUT = {"median", "low", "high", "unit"}
LATENCY = {"p50", "p90", "p95", "p99", "p999", "max"}
# Further keys. The schema is stable, so none of them may disappear.
MORE = {
    *("floor", "items", "elapsed_ns", "latency_by_kind_ns", "response_ns", "late_ns", "series", "temperature"),
    *(
        "resident_percent",
        "client",
        "server",
        "cpu_ns_per_item",
        "write_amplification",
        "loop",
        "version",
        "settings",
        "doubts",
    ),
}
USED = {
    *("user_ns", "system_ns", "voluntary_switches", "involuntary_switches", "major_faults"),
    *("asked_bytes", "read_bytes", "written_bytes"),
}


def plain(run: Run) -> dict[str, Any]:
    """Returns the run's JSON as a parser reads it; NaN and infinity are refused."""
    found: dict[str, Any] = json.loads(json.dumps(export.as_data(run), allow_nan=False))
    return found


def cell(found: Mapping[str, Any], engine: str, phase: str, tier: str | None = None) -> Any:
    (one,) = (c for c in found["cells"] if (c["engine"], c["phase"]) == (engine, phase) and tier in (None, c["tier"]))
    return one


def test_json_cells_have_every_documented_key(run: Run) -> None:
    found = plain(void(run, "lmdb", "wrong"))
    assert len(found["cells"]) == len(run.cells) * len(PHASES)
    for each in found["cells"]:
        assert set(each) >= KEYS | MORE
        assert set(each["latency_ns"]) == set(each["response_ns"]) == set(each["late_ns"]) == LATENCY
        assert each["throughput"] is None or set(each["throughput"]) == THROUGHPUT
        assert all(set(caveat) == {"code", "text"} for caveat in each["caveats"])
        assert each["valid"] is (each["why"] is None)
        assert each["tier"] in {tier.value for tier in Tier}


def test_json_has_the_figures_of_the_run(measured: Run) -> None:
    found = plain(measured)
    for at, asked in enumerate(measured.cells):
        for phase in PHASES:
            samples = [s for a in measured.attempts if a.cell == at for s in a.samples if s.phase == phase]
            assert len(samples) == 2
            each = cell(found, asked.asked, phase, asked.tier_name)
            assert each["throughput"]["median"] == pytest.approx(
                median(s.items / s.elapsed_ns * 1e9 for s in samples)
            )
            assert each["throughput"]["low"] is each["throughput"]["high"] is None, "of two samples"
            assert each["throughput"]["unit"] == f"{samples[0].unit}/s"
            assert each["operations"] == sum(s.operations for s in samples)
            assert each["samples"] == 2
            assert each["params"] == dict(asked.params)
            assert each["floor"] is asked.engine.startswith("null")


def test_latencies_increase_and_memory_has_no_disk_bytes(run: Run) -> None:
    found = plain(run)
    one = cell(found, "sqlite", "rand-key")["latency_ns"]
    known = [one[name] for name in LATENCIES if one[name] is not None]
    assert len(known) > 1
    assert all(a <= b for a, b in pairwise(known))
    assert cell(found, "memory", "rand-key")["bytes_on_disk"] is None
    assert cell(found, "sqlite", "rand-key")["bytes_on_disk"] > 0


def test_json_has_null_for_unknown_figures(run: Run) -> None:
    each = cell(plain(void(run, "lmdb", "got None")), "lmdb", "rand-key")
    assert (each["valid"], each["why"]) == (False, "void: got None")
    for name in ("throughput", "operations", "items", "elapsed_ns", "bytes_on_disk"):
        assert each[name] is None
    assert set(each["latency_ns"].values()) == {None}
    assert each["samples"] == 0


def test_json_has_resources_loop_temperature_and_series(measured: Run) -> None:
    for each in plain(measured)["cells"]:
        assert set(each["client"]) == USED
        assert each["client"]["user_ns"] >= 0 and each["server"] is None
        assert set(each["loop"]) == {"name", "clock", "operation_ns", "span_ns", "python"}
        assert each["temperature"] == ("hot" if each["phase"] == "rand-key" else "none")
        assert each["resident_percent"] is None, "asked of cold phases only"
        assert len(each["series"]) == each["samples"] == 2
        for series in each["series"]:
            assert all({"operations", "p50_ns", "p99_ns"} <= set(second) for second in series)
            # A bulk call has no series. Every other operation is counted in one second.
            assert sum(second["operations"] for second in series) in (0, each["operations"] // 2)
    inserted = cell(plain(measured), "lmdb", "insert-blind-indices")
    assert inserted["write_amplification"] is None or inserted["write_amplification"] > 0
    assert cell(plain(measured), "memory", "insert-blind-indices")["write_amplification"] is None


def test_json_has_the_figures_of_the_samples(run: Run) -> None:
    residency = Residency(file_bytes=1_000, resident_bytes=25, evicted_by="files")
    point = Point(from_ns=0, interval_ns=10**9, operations=1, p50_ns=2, p99_ns=3)
    used = dict.fromkeys(USED, 7)
    spoilt = changed(
        open_loop(run),
        lambda name, sample: replace(
            sample,
            temperature="cold",
            residency=residency,
            client=used,
            server={**used, "read_bytes": None},
            written_bytes=500,
            payload_bytes=200,
            series=(point,),
        ),
    )
    each = cell(plain(by_loops(spoilt, NATIVE)), "sqlite", "rand-key")
    assert each["response_ns"]["p99"] == pytest.approx(2_000_000, rel=1e-3)
    assert each["late_ns"]["p50"] == pytest.approx(4_000, rel=1e-3)
    assert (each["temperature"], each["resident_percent"], each["write_amplification"]) == ("cold", 2.5, 2.5)
    assert (each["client"], each["server"]) == (used, {**used, "read_bytes": None})
    assert each["loop"] == NATIVE
    assert each["series"] == [[point]] * 2


def test_json_has_the_cpu_time_of_each_item(run: Run) -> None:
    found = plain(void(using(run, **SERVED), "memory", "wrong"))
    costs = {name: cell(found, name, "rand-key")["cpu_ns_per_item"] for name in TIERS}
    assert costs == {
        "sqlite": {"client": 28_400, "server": 5_140_000},
        "lmdb": {"client": 28_400, "server": None},
        "leveldb": {"client": 28_400, "server": None},
        "memory": {"client": None, "server": None},
    }


def test_json_lists_absent_phases_apart_from_cells(run: Run) -> None:
    assert plain(run)["absent"] == []
    found = plain(absent(run, "lmdb", "rand-key", "keeps nothing"))
    asked = next(asked for asked in run.cells if asked.engine == "lmdb")
    assert found["absent"] == [
        {
            "suite": "records",
            "engine": "lmdb",
            "phase": "rand-key",
            "params": dict(asked.params),
            "tier": "process",
            "why": "keeps nothing",
        }
    ]
    assert ("lmdb", "rand-key") not in {(c["engine"], c["phase"]) for c in found["cells"]}


def test_json_engine_name_includes_requested_option(run: Run) -> None:
    sqlite = next(at for at, asked in enumerate(run.cells) if asked.engine == "sqlite")
    cells = [replace(c, options={"cache_mib": 8}) if at == sqlite else c for at, c in enumerate(run.cells)]
    assert cell(plain(replace(run, cells=tuple(cells))), "sqlite:cache_mib=8", "rand-key")["valid"]


# -- CSV ------------------------------------------------------------------------------------------------------

AWKWARD = 'got "a|b", expected\n{\'name\': "x, y"}; 100 %'


def test_csv_has_the_cells_of_the_json(run: Run) -> None:
    spoilt = void(using(open_loop(run), **SERVED), "lmdb", AWKWARD)
    rows = list(csv.DictReader(io.StringIO(export.as_csv(export.cells(spoilt))), strict=True))
    cells = plain(spoilt)["cells"]
    assert len(rows) == len(cells)
    for row, each in zip(rows, cells, strict=True):
        assert None not in row, "a line with more fields than there are headings"
        assert row == {name: flat(each, name) for name in row}
    assert any(row["why"] == f"void: {AWKWARD}" for row in rows)
    assert any(row["response_p99_ns"] for row in rows)
    assert any(row["server_cpu_ns_per_item"] for row in rows)


def flat(each: Mapping[str, Any], name: str) -> str:
    """Returns the value that CSV must have under the heading `name`."""
    value: Any
    if name.startswith("param_"):
        value = each["params"][name.removeprefix("param_")]
    elif name.startswith(("throughput_", "bandwidth_")):
        metric, _, end = name.partition("_")
        value = (each[metric] or {}).get(end)
    elif name.startswith("account_"):
        value = each["account_ns"].get(name.removeprefix("account_").removesuffix("_ns"))
    elif name.startswith("latency_"):
        value = each["latency_ns"][name.removeprefix("latency_").removesuffix("_ns")]
    elif name.startswith("response_"):
        value = each["response_ns"][name.removeprefix("response_").removesuffix("_ns")]
    elif name.endswith("_cpu_ns_per_item"):
        value = each["cpu_ns_per_item"][name.removesuffix("_cpu_ns_per_item")]
    elif name in ("caveats", "doubts"):
        value = ";".join(remark["code"] for remark in each[name])
    elif name == "awake":
        # In JSON this is a value of the plan, not of a cell.
        value = False
    else:
        value = each[name]
    return "" if value is None else str(value)


def test_csv_has_column_for_every_documented_key(run: Run) -> None:
    heads = set(next(csv.reader(io.StringIO(export.as_csv(export.cells(run))))))
    assert heads >= KEYS - {"params", "throughput", "latency_ns"}
    assert heads >= {f"throughput_{name}" for name in THROUGHPUT} | {f"latency_{name}_ns" for name in LATENCY}
    assert heads >= {f"response_{name}_ns" for name in LATENCY} | {"temperature", "write_amplification"}
    assert heads >= {f"param_{name}" for name in run.cells[0].params}


# -- Markdown -------------------------------------------------------------------------------------------------


def markdown_tables(run: Run) -> list[list[list[str]]]:
    """Returns the tables as lists of lines of cells. An escaped pipe is part of a cell."""
    found: list[list[list[str]]] = [[]]
    for line in as_markdown(run).splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
            cells = re.split(r"(?<!\\)\|", line.replace("\N{NO-BREAK SPACE}", " "))[1:-1]
            found[-1].append([part.strip() for part in cells])
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_markdown_table_lines_have_equal_cell_counts(run: Run) -> None:
    other = replace(
        run, cells=tuple(replace(c, params={**c.params, "records": 5}) for c in run.cells[:1]) + run.cells[1:]
    )
    for shown in (run, void(run, "lmdb", AWKWARD), other, replace(run, attempts=())):
        found = markdown_tables(shown)
        assert len(found) == len(groups(shown)) == 6
        for table, group in zip(found, groups(shown), strict=True):
            head, rule, *lines = table
            assert {len(line) for line in table} == {len(head)}
            assert set(rule) == {":---", "---:"}
            assert len(lines) == len(group.rows)
            assert [line[0] for line in lines] == [row.name for row in group.rows]
    assert "records" in markdown_tables(other)[0][0]
    assert "records" not in markdown_tables(run)[0][0]


def test_markdown_escapes_pipes_in_cells(run: Run) -> None:
    cells = [replace(c, options={"url": "a|b"}) if c.engine == "sqlite" else c for c in run.cells]
    found = markdown_tables(replace(run, cells=tuple(cells)))
    assert any(line[0] == r"sqlite:url=a\|b" for table in found for line in table)
    assert all(len(line) == len(table[0]) for table in found for line in table)


def test_markdown_says_phase_and_tier_above_each_table(run: Run) -> None:
    titles = re.findall(r"^\*\*(\S+)\*\*, tier (\w+)$", as_markdown(run), re.MULTILINE)
    assert titles == [(phase, tier) for phase in PHASES for tier in ("volatile", "process")]


def test_markdown_has_response_times_only_in_open_loop(run: Run) -> None:
    assert "resp" not in as_markdown(run)
    shown = open_loop(run)
    for table, group in zip(markdown_tables(shown), groups(shown), strict=True):
        head, _, *lines = table
        assert len({len(line) for line in table}) == 1
        if group.phase == "insert-blind-indices":
            assert "resp p50" not in head
            continue
        at = head.index("p50")
        assert head[at : at + 5] == ["p50", "p99", "max", "resp p50", "resp p99"]
        assert {tuple(line[at : at + 5]) for line in lines} == {
            ("30.0 µs", "30.0 µs", "30.0 µs", "2.00 ms", "2.00 ms")
        }


def test_markdown_has_cpu_time_beside_the_throughput(run: Run) -> None:
    for table in markdown_tables(using(run)):
        assert table[0][2:4] == ["95 %", "cpu"]
        assert {line[3] for line in table[2:]} == {"28 µs"}
    assert f"\n- {CPU}\n" in as_markdown(using(run))
    shown = using(run, **SERVED)
    for table, group in zip(markdown_tables(shown), groups(shown), strict=True):
        found = {line[0]: line[4] for line in table[2:]}
        if group.tier is Tier.PROCESS:
            assert table[0][3:5] == ["client", "server"]
            assert (found["sqlite"], found["lmdb"], found["leveldb"]) == ("5.1 ms", "–", "–")
        else:
            assert "client" in table[0] and "server" not in table[0], "none has one"
    assert "\n- client, server: CPU time of their processes" in as_markdown(shown)


def test_markdown_lists_absent_phases(run: Run) -> None:
    shown = as_markdown(absent(run, "lmdb", "rand-key", "keeps nothing"))
    assert "\n- not measured: rand-key: lmdb keeps nothing\n" in shown
    assert "not measured" not in as_markdown(run)


# -- the commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "form"),
    [
        ("--all", printed),
        ("--json", lambda run: json.dumps(export.as_data(run), indent=2) + "\n"),
        ("--csv", lambda run: export.as_csv(export.cells(run))),
        ("--markdown", as_markdown),
    ],
    ids=["text", "json", "csv", "markdown"],
)
def test_show_prints_each_form(shell: Shell, measured: Run, flag: str, form: Callable[[Run], str]) -> None:
    status, out, err = shell.dyno("show", measured.path, flag)
    assert (status, err) == (0, "")
    assert out == form(measured)


# -- figures of outside tools, bytes and parts ---------------------------------------------------------------------


@pytest.mark.claim("Figures of an outside tool are in no ratio with what Dyno timed")
def test_tool_reported_rows_have_their_own_named_table(run: Run) -> None:
    """A tool reported SQLite's rows, and Dyno measured LMDB's: they share no table and no ranking."""
    mixed = changed(run, lambda name, s: replace(s, reported_by="hammer 1.0") if name == "sqlite" else s)
    found = [group for group in groups(mixed) if (group.phase, group.tier) == ("rand-key", Tier.PROCESS)]
    names = [[row.summary.cell.engine for row in group.rows if not row.summary.cell.floor] for group in found]
    assert names == [["lmdb", "leveldb"], ["sqlite"]]
    assert [group.place for group in found] == ["rand-key", "rand-key, by hammer 1.0"]
    shown = printed(mixed)
    assert "rand-key, by hammer 1.0  tier process" in shown
    assert "reported by hammer 1.0" in next(line for line in shown.splitlines() if line.startswith("sqlite"))
    assert re.search(r"sqlite \(process\), as reported by hammer 1\.0: ", shown)
    cells = {(cell["engine"], cell["phase"]): cell for cell in plain(mixed)["cells"]}
    assert cells["sqlite", "mixed"]["reported_by"] == "hammer 1.0" and cells["lmdb", "mixed"]["reported_by"] is None
    whole = changed(run, lambda _, s: replace(s, reported_by="hammer 1.0"))
    assert {group.place for group in groups(whole)} == set(PHASES), "the same for all of a phase: one table"


def test_failed_row_shares_table_of_reported_competitors(run: Run) -> None:
    whole = changed(run, lambda name, s: replace(s, reported_by="hammer 1.0"))
    failed = replace(whole, attempts=tuple(a for a in whole.attempts if whole.cells[a.cell].engine != "lmdb"))
    assert len([group for group in groups(failed) if group.phase == "mixed"]) == 2, "one for each tier"


def test_bandwidth_has_column_and_ranks_phases_declaring_it(run: Run) -> None:
    # The slower engine moves more bytes.
    moved = changed(run, lambda name, s: replace(s, bytes=s.items * (10**6 if name == "lmdb" else 10)))
    shown = printed(moved)
    assert "bandwidth" in shown and "2.00 GB/s" in shown.replace("2 GB/s", "2.00 GB/s")
    assert "bandwidth" not in printed(run)
    by_bytes = replace(moved, recorded={**run.recorded, "phases": [{"name": "rand-key", "metric": "bandwidth"}]})
    for found, first in ((moved, "sqlite"), (by_bytes, "lmdb")):
        group = next(g for g in groups(found) if (g.phase, g.tier) == ("rand-key", Tier.PROCESS))
        assert group.rows[0].summary.cell.engine == first


def test_latency_parts_are_listed_in_suite_order(run: Run) -> None:
    parts = {"wait": recorded(2_000), "connect": recorded(3_000), "send": recorded(1_000)}
    split = changed(run, lambda _, s: replace(s, by_part=parts))
    header = {**run.recorded, "phases": [{"name": "rand-key", "parts": ["send", "connect", "wait"]}]}
    row = next(group for group in groups(replace(split, recorded=header)) if group.phase == "rand-key").rows[0]
    assert "p50 of send 1.00µs, connect 3.00µs, wait 2.00µs" in row.remarks()
    (cell, *_) = [c for c in plain(split)["cells"] if c["phase"] == "rand-key"]
    assert {part: found["p50"] for part, found in cell["latency_by_part_ns"].items()} == pytest.approx(
        {"connect": 3_000, "send": 1_000, "wait": 2_000}, rel=1e-2
    )


def test_run_without_tiers_names_no_tier(run: Run) -> None:
    cells = tuple(replace(cell, tier=None) for cell in run.cells if cell.engine in ("lmdb", "sqlite"))
    places = [at for at, cell in enumerate(run.cells) if cell.engine in ("lmdb", "sqlite")]
    attempts = tuple(replace(a, cell=places.index(a.cell)) for a in run.attempts if a.cell in places)
    # Results of crashes on this machine are printed with tiers, so the run has none.
    bare = replace(run, recorded={**run.recorded, "crashed": None}, cells=cells, attempts=attempts)
    for shown in (printed(bare), as_markdown(bare)):
        assert "tier" not in shown.replace("this machine", "").split("This machine")[0]
    assert {cell["tier"] for cell in plain(bare)["cells"]} == {None}
    rows = list(csv.DictReader(io.StringIO(export.as_csv(export.cells(bare)))))
    assert {row["tier"] for row in rows} == {""}
