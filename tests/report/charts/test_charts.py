"""Tests that charts agree with the run and with other reports, and that their colours can be told apart.

Tiers never share a panel, a row without a number has no mark, percentiles and seconds match an independent
computation, and every specification can be drawn. Runs come from one stored run file. Tests that need exact figures
insert them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import combinations, pairwise, permutations
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import vl_convert
from madeup import changed, recorded
from runfiles import measured_records

from dyno.contracts.decoded_types import Point, Value
from dyno.contracts.histogram import Recorder
from dyno.contracts.presentation import Axis, Curve
from dyno.fields import Sample
from dyno.report import charts, export
from dyno.report.charts import FIXED, latency, vega
from dyno.report.charts.chart import Chart, Record, panels
from dyno.report.tables import notes, sweeps, wording
from dyno.results import Attempt, Run
from dyno.stats.compare import pairs

PHASES = ("insert-blind-indices", "rand-key", "mixed")
NAMES = ("throughput", "ratios", "latency", "parts", "series", "clients", "size", "tradeoff")
COMMON = {"engine", "phase", "tier", "params", "floor", "remarks"}
RATES = {"lmdb": 2e5, "sqlite": 3e4, "memory": 1e6, "null": 9e7, "nullkv": 8e6}
SECOND = 10**9
BY_NAME = {chart.name: chart for chart in FIXED}
TRADEOFF = Curve(
    name="tradeoff",
    title="Gain against speed",
    reading="Up is smaller and right is faster.",
    x=Axis("metric", "throughput", scale="log"),
    y=Axis("fact", "ratio", "gain", "ratio"),
    line="packer",
    point="batch",
)


def named(run: Run, name: str) -> Chart:
    (found,) = (chart for chart in charts.list_charts(run) if chart.name == name)
    return found


def at_rate(name: str, sample: Sample) -> Sample:
    elapsed = int(sample.items / RATES[name] * 1e9)
    return replace(sample, elapsed_ns=elapsed, busy_ns=elapsed, series=())


@pytest.fixture(scope="module")
def run() -> Run:
    """Run of three engines at two tiers, with null engines at both, and with known rates, which differ by one percent
    from block to block."""
    known = changed(measured_records(("lmdb", "sqlite", "memory"), PHASES), at_rate)

    def spread(found: Attempt) -> Attempt:
        samples = (replace(s, elapsed_ns=int(s.elapsed_ns * (1 + found.block / 100))) for s in found.samples)
        return replace(found, samples=tuple(samples))

    return replace(known, attempts=tuple(spread(found) for found in known.attempts))


def void(run: Run, engine: str, phase: str = "rand-key", why: str = "got 1, expected 2") -> Run:
    return changed(run, lambda name, s: replace(s, void=why) if (name, s.phase) == (engine, phase) else s)


def times(*spans_ns: int) -> bytes | None:
    recorder = Recorder()
    recorder.add(list(spans_ns))
    return recorder.encode()


def by_clients(run: Run) -> Run:
    """Returns the run repeated for one, two and four clients."""
    cells, attempts = [], []
    for at, count in enumerate((1, 2, 4)):
        cells += [replace(cell, params={**cell.params, "clients": count}) for cell in run.cells]
        attempts += [replace(a, cell=a.cell + at * len(run.cells)) for a in run.attempts]
    return replace(run, cells=tuple(cells), attempts=tuple(attempts))


def over_seconds(run: Run, *operations: int | None, elapsed: float | None = None) -> Run:
    """Returns the run with this number of operations in each second; None stands for a second without any."""
    series = tuple(
        Point(from_ns=at * SECOND, interval_ns=SECOND, operations=count, p50_ns=10, p99_ns=1_000 + at)
        for at, count in enumerate(operations)
        if count is not None
    )
    length = int((elapsed or len(operations)) * SECOND)
    return changed(run, lambda _, s: s if s.bulk else replace(s, series=series, elapsed_ns=length))


def compressed(run: Run, ratio: float = 2.5) -> Run:
    """Returns the run with facts and parameters of compression, the same for all cells."""
    cells = [replace(cell, params={**cell.params, "packer": "zlib", "batch": 16}) for cell in run.cells]
    told = replace(run, cells=tuple(cells), recorded={**run.recorded, "charts": [asdict(TRADEOFF)]})
    return changed(told, lambda _, s: replace(s, facts={"ratio": ratio}))


def in_parts(run: Run) -> Run:
    return changed(run, lambda _, s: replace(s, by_part={"connect": times(2_000), "answer": times(5_000)}))


def drawable(run: Run) -> Run:
    """A run with records for every chart."""
    return compressed(in_parts(over_seconds(by_clients(run), 100, None, 120)))


def drawn(chart: Chart, run: Run, records: Sequence[Record]) -> str:
    spec = chart.spec(notes.engines(run), "op")
    svg: str = vl_convert.vegalite_to_svg({**spec, "data": {"values": list(records)}, "config": vega.config()})
    return svg


def spoken(svg: str) -> list[str]:
    """Returns the descriptions of marks for screen readers."""
    marks = (mark for mark in ElementTree.fromstring(svg).iter() if mark.get("role") == "graphics-symbol")
    described = ((mark.get("aria-roledescription"), mark.get("aria-label")) for mark in marks)
    return [label for kind, label in described if label and kind not in ("axis", "legend")]


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in ElementTree.fromstring(svg).iter() if found.tag.endswith("}text")]


def one(records: Sequence[Record], engine: str, phase: str = "rand-key", **more: Any) -> Record:
    wanted = {"engine": engine, "phase": phase, **more}
    (found,) = (record for record in records if all(record[key] == value for key, value in wanted.items()))
    return found


# -- all charts -----------------------------------------------------------------------------------------------


def test_charts_are_listed_in_fixed_order(run: Run) -> None:
    without_records = ("versions", "account", "flame", "flame-difference")
    names = tuple(chart.name for chart in charts.list_charts(drawable(run)))
    assert names == (*NAMES[:2], *without_records, *NAMES[2:])
    assert [chart.name for chart in charts.list_charts(run)] == [chart.name for chart in FIXED]


@pytest.mark.parametrize("name", NAMES)
def test_records_have_common_and_table_columns(run: Run, name: str) -> None:
    shown = drawable(run)
    chart = named(shown, name)
    records = chart.records(shown)
    assert records
    for record in records:
        assert record.keys() >= COMMON | {column.key for column in chart.columns}
        assert set(record["params"]) == {"clients"}
    assert [record["params"] for record in BY_NAME["throughput"].records(run)] == [{}] * len(run.cells) * 3


@pytest.mark.parametrize("name", NAMES)
def test_panels_show_their_engine_names(run: Run, name: str) -> None:
    shown = drawable(run)
    chart = named(shown, name)
    for panel in panels(chart, chart.records(shown)):
        # Panels of other numbers of clients look alike, and drawing takes time.
        if panel.params.get("clients", 1) != 1:
            continue
        if name == "ratios":
            first = panel.records[0]["baseline"]
            panel.records[:] = [record for record in panel.records if record["baseline"] == first]
        svg = drawn(chart, shown, panel.records)
        names = {record["engine"] + (" (floor)" if record["floor"] else "") for record in panel.records}
        assert names <= set(texts(svg)), (panel.phase, panel.tier)
        assert len(spoken(svg)) >= len([record for record in panel.records if not record["floor"]])


@pytest.mark.claim("Charts mix no tiers or parameters, and show the figures of dyno show")
@pytest.mark.parametrize("name", NAMES)
def test_panels_mix_no_tiers_or_parameters(run: Run, name: str) -> None:
    shown = drawable(run)
    chart = named(shown, name)
    found = panels(chart, chart.records(shown))
    tiers = {panel.tier for panel in found}
    assert tiers == ({"process"} if name in ("ratios", "size") else {"volatile", "process"})
    for panel in found:
        assert {(record["phase"], record["tier"]) for record in panel.records} == {(panel.phase, panel.tier)}
        clients = {record["params"]["clients"] for record in panel.records}
        assert len(clients) == (3 if name == "clients" else 1)
        assert panel.params == ({} if name == "clients" else {"clients": clients.pop()})


@pytest.mark.claim("Charts mix no tiers or parameters, and show the figures of dyno show")
@pytest.mark.parametrize("name", NAMES)
def test_invalid_row_has_no_figure(run: Run, name: str) -> None:
    shown = void(drawable(run), "lmdb")
    records = [r for r in named(shown, name).records(shown) if (r["engine"], r["phase"]) == ("lmdb", "rand-key")]
    if name != "throughput":
        assert records == []
        return
    assert {(r["throughput"], r["low"], r["high"]) for r in records} == {(None, None, None)}
    assert {(r["instead"], r["why"]) for r in records} == {("void", "void: got 1, expected 2")}


def test_invalid_row_is_named_but_not_drawn(run: Run) -> None:
    chart, shown = BY_NAME["throughput"], void(run, "lmdb")
    panel = next(p for p in panels(chart, chart.records(shown)) if (p.phase, p.tier) == ("rand-key", "process"))
    svg = drawn(chart, shown, panel.records)
    assert {"lmdb", "void", "sqlite"} <= {text.split(" · ")[0] for text in texts(svg)}
    assert [label.split(",")[0] for label in spoken(svg)] == ["sqlite"]


def test_a_run_without_trials_draws_no_figure(run: Run) -> None:
    empty = replace(run, attempts=())
    records = BY_NAME["throughput"].records(empty)
    assert {record["throughput"] for record in records} == {None}
    assert spoken(drawn(BY_NAME["throughput"], empty, records)) == []
    assert all(chart.records(empty) == [] for chart in FIXED if chart.name != "throughput")


def test_remarks_stand_beside_the_figure(run: Run) -> None:
    slow = changed(run, lambda name, s: replace(s, ended_by="budget") if name == "sqlite" else s)
    chart = BY_NAME["throughput"]
    record = one(chart.records(slow), "sqlite")
    assert {"budget", "short", "columns"} <= set(record["remarks"].split(", "))
    assert f"29.7 k · {record['remarks']}" in texts(drawn(chart, slow, [record]))
    assert "budget" not in one(chart.records(slow), "lmdb")["remarks"]
    # A time budget doesn't affect sizes.
    assert "budget" not in one(BY_NAME["size"].records(slow), "sqlite")["remarks"]


# -- throughput, size --------------------------------------------------------------------------------


@pytest.mark.claim("Charts mix no tiers or parameters, and show the figures of dyno show")
def test_throughput_equals_that_of_show(run: Run) -> None:
    cells = json.loads(export.as_json(run))["cells"]
    records = BY_NAME["throughput"].records(run)
    assert len(records) == len(cells)
    for record, cell in zip(records, cells, strict=True):
        assert [record[key] for key in ("engine", "phase", "tier", "floor")] == [
            cell[key] for key in ("engine", "phase", "tier", "floor")
        ]
        figures = {"median": record["throughput"], "low": record["low"], "high": record["high"]}
        assert {**figures, "unit": record["unit"]} == cell["throughput"]


def test_bar_lengths_are_proportional_to_throughput(run: Run) -> None:
    chart = BY_NAME["throughput"]
    records = [r for r in chart.records(run) if (r["phase"], r["tier"]) == ("rand-key", "process")]
    assert [record["engine"] for record in records] == ["lmdb", "sqlite", "null", "nullkv"], "the best first"
    svg = drawn(chart, run, records)
    bars = [m for m in ElementTree.fromstring(svg).iter() if m.get("aria-roledescription") == "bar"]
    lengths = {str(m.get("aria-label")).split(",")[0]: _length(str(m.get("d"))) for m in bars}
    assert set(lengths) == {"lmdb", "sqlite"}, "no floor"
    assert lengths["lmdb"] / lengths["sqlite"] == pytest.approx(RATES["lmdb"] / RATES["sqlite"], rel=0.02)
    assert {"198 k", "29.7 k", "89.1 M", "7.92 M"} <= {text.split(" · ")[0] for text in texts(svg)}


def _length(path: str) -> float:
    """Returns the length of a bar, which begins at 0."""
    return max(float(x) for x in re.findall(r"[Mh]([\d.]+)", path))


def test_interval_is_drawn_only_where_known(run: Run) -> None:
    chart = BY_NAME["throughput"]
    few = replace(run, attempts=tuple(a for a in run.attempts if a.block < 2))
    for shown, count in ((run, 2), (few, 0)):
        records = [r for r in chart.records(shown) if (r["phase"], r["tier"]) == ("rand-key", "process")]
        svg = drawn(chart, shown, records)
        assert len(re.findall(r"<line[^>]*stroke=\"#1f2328\"", svg)) == count


def test_trials_are_drawn_as_dots(run: Run) -> None:
    chart = BY_NAME["throughput"]
    place = ("rand-key", "process")
    found = {r["engine"]: r for r in chart.records(run) if (r["phase"], r["tier"]) == place}
    told = {
        run.cells[a.cell].asked: [float(f"{s.per_second:.4g}") for s in a.samples if s.phase == place[0]]
        for a in run.attempts
        if run.cells[a.cell].tier_name == place[1]
    }
    for engine in ("lmdb", "sqlite"):
        assert len(found[engine]["each"]) == found[engine]["trials"] > 1
        assert set(told[engine]) <= set(found[engine]["each"])
    assert found["null"]["each"] == []
    records = list(found.values())
    dots = sum(len(record["each"]) for record in records)
    assert symbols(drawn(chart, run, records)) == dots
    brief = [record for record in chart.brief(run) if (record["phase"], record["tier"]) == place]  # type: ignore[misc]
    assert symbols(drawn(chart, run, brief)) == 0
    far = {**records[0], "each": [*records[0]["each"], 1e12]}
    assert symbols(drawn(chart, run, [far, *records[1:]])) == dots


def axis(svg: str) -> set[str]:
    """Returns the labels of the ticks."""
    return {text for text in texts(svg) if re.fullmatch(r"(× )?[\d.]+( [kMG])?", text)}


def symbols(svg: str) -> int:
    """Returns the number of points and arrows."""
    groups = (one_ for one_ in ElementTree.fromstring(svg).iter() if "mark-symbol role-mark" in one_.get("class", ""))
    return sum(map(len, groups))


@pytest.mark.parametrize("name", ["throughput", "ratios", "clients"])
def test_wide_interval_is_clipped_with_an_arrow(run: Run, name: str) -> None:
    """The interval is clipped and ends in an arrow."""
    shown = by_clients(run)
    chart = named(shown, name)
    (panel, *_) = (p for p in panels(chart, chart.records(shown)) if (p.phase, p.tier) == ("rand-key", "process"))
    base = panel.records[0].get("baseline")
    records = [record for record in panel.records if record.get("baseline") == base]
    high = "y_high" if name == "clients" else "high"
    before = drawn(chart, shown, records)
    wide = drawn(chart, shown, [{**records[0], high: records[0][high] * 1_000}, *records[1:]])
    # The axis grows by at most three ticks.
    assert len(axis(wide) - axis(before)) <= 3 and axis(before) <= axis(wide)
    assert symbols(wide) == symbols(before) + 1, "an arrow"


def test_panels_of_ratios_share_one_axis(run: Run) -> None:
    """Panels of all phases have the same axis, although their ratios differ."""
    steep = changed(
        run,
        lambda name, s: replace(s, elapsed_ns=s.elapsed_ns * 50) if (name, s.phase) == ("sqlite", "mixed") else s,
    )
    chart = BY_NAME["ratios"]
    records = [record for record in chart.records(steep) if record["baseline"] == "lmdb"]
    assert len({record["ratio"] for record in records}) > 1
    axes = [axis(drawn(chart, steep, panel.records)) for panel in panels(chart, records)]
    assert len(axes) == len(PHASES) and len(set(map(frozenset, axes))) == 1


def test_size_chart_shows_disk_bytes_smallest_first(run: Run) -> None:
    known = {"lmdb": 3_000_000, "sqlite": 1_000_000, "memory": None, "null": None, "nullkv": None}
    sized = changed(run, lambda name, s: replace(s, bytes_on_disk=known[name], written_bytes=500, payload_bytes=200))
    records = BY_NAME["size"].records(sized)
    for phase in PHASES:
        found = [(r["engine"], r["bytes_on_disk"]) for r in records if r["phase"] == phase]
        assert found == [("sqlite", 1_000_000), ("lmdb", 3_000_000)]
    assert {record["write_amplification"] for record in records} == {2.5}
    figures = {text.split(" · ")[0] for text in texts(drawn(BY_NAME["size"], sized, records[:2]))}
    assert {"977 KiB", "2.86 MiB"} <= figures


# -- sweeps ---------------------------------------------------------------------------------------------------


def test_clients_chart_exists_only_if_clients_vary(run: Run) -> None:
    assert "clients" not in {chart.name for chart in charts.list_charts(run)}
    shown = by_clients(run)
    chart = named(shown, "clients")
    assert chart.spans == ("clients",)
    records = chart.records(shown)
    assert {record["x"] for record in records} == {1, 2, 4}
    assert {record["engine"] for record in records} == {"lmdb", "sqlite", "memory"}
    throughput = one(BY_NAME["throughput"].records(run), "lmdb")
    assert all(one(records, "lmdb", x=n)["y"] == throughput["throughput"] for n in (1, 2, 4))
    assert {record["unit"] for record in records if record["phase"] == "rand-key"} == {"op/s"}


def by_records(run: Run, *values: Any, rates: Mapping[str, Sequence[float]] | None = None) -> Run:
    """Returns the run repeated for these numbers of records. `rates` has operations per second at each, by engine."""
    cells, attempts = [], []
    for at, value in enumerate(values):
        cells += [replace(cell, params={**cell.params, "records": value}) for cell in run.cells]
        for found in run.attempts:
            wanted = (rates or {}).get(run.cells[found.cell].engine)
            samples = found.samples
            if wanted:
                # Rates differ by one percent from block to block, as in `run`.
                slow = 1 + found.block / 100
                samples = tuple(replace(s, elapsed_ns=int(s.items / wanted[at] * SECOND * slow)) for s in samples)
            attempts.append(replace(found, cell=found.cell + at * len(run.cells), samples=samples))
    return replace(run, cells=tuple(cells), attempts=tuple(attempts))


def test_numeric_parameter_with_several_values_has_chart(run: Run) -> None:
    def swept(*values: Any) -> list[str]:
        return [
            chart.name for chart in charts.list_charts(by_records(run, *values)) if chart.name.startswith("sweep:")
        ]

    assert swept(100, 200) == ["sweep:records"]
    assert swept(100) == swept("all", "none") == swept(True, False) == swept(100, "all") == []
    assert swept(100, 200, "all") == ["sweep:records"]
    mixed = by_records(run, 100, 200, "all")
    assert {record["x"] for record in named(mixed, "sweep:records").records(mixed)} == {100, 200}


@pytest.mark.parametrize(
    ("values", "scale"), [((10, 199), "linear"), ((10, 200), "log"), ((0, 1_000), "linear"), ((-1, 50), "linear")]
)
def test_sweep_axis_is_logarithmic_for_wide_ranges(run: Run, values: tuple[int, int], scale: str) -> None:
    shown = by_records(run, *values)
    spec = named(shown, "sweep:records").spec(notes.engines(shown), "op")
    x = spec["layer"][0]["encoding"]["x"]
    assert (x["scale"].get("type", "linear"), x["axis"]["values"]) == (scale, list(values))


CROSSING = {"lmdb": (8e4, 4e4, 2e4), "sqlite": (2e4, 2e4, 8e4)}


@pytest.mark.claim("A crossing point lies between two values with clear verdicts")
def test_crossing_is_interpolated_on_the_axis_scale(run: Run) -> None:
    """One engine is twice as fast at 1,000 records and a quarter as fast at 10,000. On logarithmic axes the lines
    cross after a third of the way."""
    shown = by_records(run, 100, 1_000, 10_000, rates=CROSSING)
    chart = named(shown, "sweep:records")
    said = [s["text"] for s in chart.says(shown) if s["phase"] == "rand-key"]
    assert said == ["from records = 2,200 on, sqlite is faster than lmdb (interpolated between 1,000 and 10,000)"]
    table = [row for row in sweeps.rows(shown) if row["where"] == "rand-key, tier process"]
    assert [(row["from"], row["faster below"], row["faster from there on"]) for row in table] == [
        ("2,200", "lmdb", "sqlite")
    ]
    linear = by_records(run, 100, 200, 300, rates=CROSSING)
    (text,) = [s["text"] for s in named(linear, "sweep:records").says(linear) if s["phase"] == "rand-key"]
    assert "from records = 230 on" in text


@pytest.mark.claim("A crossing point lies between two values with clear verdicts")
def test_crossing_with_unclear_verdicts_is_a_range(run: Run) -> None:
    shown = by_records(run, 100, 1_000, 10_000, rates={"lmdb": (8e4, 2e4, 2e4), "sqlite": (2e4, 2e4, 8e4)})
    (text,) = [s["text"] for s in named(shown, "sweep:records").says(shown) if s["phase"] == "rand-key"]
    assert text == "between records = 100 and 10,000, sqlite becomes faster than lmdb"


def test_lines_that_do_not_cross_have_no_crossing(run: Run) -> None:
    shown = by_records(run, 100, 1_000, rates={"lmdb": (8e4, 8e4), "sqlite": (2e4, 4e4)})
    assert named(shown, "sweep:records").says(shown) == [] == list(sweeps.rows(shown))


def test_sweep_may_show_another_metric_or_fact(run: Run) -> None:
    spans = recorded(2_000)
    shown = changed(
        compressed(by_records(run, 100, 1_000)),
        lambda _, s: replace(s, client_peak_bytes=5 << 20, histogram=spans),
    )
    for by, unit in (("p99", "p99 of the latency"), ("memory", "peak memory"), ("ratio", "ratio")):
        (chart,) = (chart for chart in charts.list_charts(shown, by) if chart.name == "sweep:records")
        record = one(chart.records(shown), "lmdb", x=100)
        assert record["unit"] == unit and record["y"]
        assert chart.says(shown) == [], "nobody compared by it"
    assert record["y"] == 2.5


# -- ratios ---------------------------------------------------------------------------------------------------


def test_ratios_equal_comparison_verdicts_in_both_directions(run: Run) -> None:
    records = BY_NAME["ratios"].records(run)
    names = [(record["phase"], record["engine"], record["baseline"]) for record in records]
    assert sorted(names) == sorted((phase, *two) for phase in PHASES for two in permutations(("lmdb", "sqlite")))
    for record, pair in zip(records, pairs(run), strict=True):
        verdict = pair.verdict
        assert (record["ratio"], record["low"], record["high"]) == (verdict.ratio, verdict.low, verdict.high)
        assert (record["kind"], record["verdict"]) == (verdict.kind, wording.verdict(verdict))
    assert one(records, "lmdb", baseline="sqlite")["ratio"] == pytest.approx(20 / 3, rel=1e-3)
    assert one(records, "sqlite", baseline="lmdb")["kind"] == "slower"


def test_a_verdict_is_written_beside_its_ratio(run: Run) -> None:
    chart = BY_NAME["ratios"]
    record = one(chart.records(run), "lmdb", baseline="sqlite")
    svg = drawn(chart, run, [record])
    assert any(text.startswith(record["verdict"]) for text in texts(svg))
    (label,) = spoken(svg)
    assert label.startswith(f"lmdb against sqlite, × 6.67, {record['verdict']}")
    assert vega.VERDICTS["faster"][0] in svg


def test_missing_ratio_shows_only_the_verdict(run: Run) -> None:
    chart = BY_NAME["ratios"]
    few = replace(run, attempts=tuple(a for a in run.attempts if a.block < 2))
    record = one(chart.records(few), "lmdb", baseline="sqlite")
    assert (record["ratio"], record["kind"]) == (None, "unclear")
    svg = drawn(chart, few, [record])
    assert spoken(svg) == []
    assert any(text.startswith("can't tell") for text in texts(svg))


def test_ratio_has_remarks_of_engine_and_baseline(run: Run) -> None:
    slow = changed(run, lambda name, s: replace(s, ended_by="budget") if name == "sqlite" else s)
    records = BY_NAME["ratios"].records(slow)
    assert "budget" in one(records, "sqlite", baseline="lmdb")["remarks"].partition("baseline: ")[0]
    assert "budget" in one(records, "lmdb", baseline="sqlite")["remarks"].partition("baseline: ")[2]


# -- charts of a suite's own ----------------------------------------------------------------------------------


def packed(run: Run) -> Run:
    """Returns the run repeated for two packers and batches of 1 and 8; their compression ratios rise in this
    order."""
    cells, attempts = [], []
    for at, (packer, batch) in enumerate((p, b) for p in ("zlib", "lz4") for b in (1, 8)):
        params: dict[str, Value] = {"packer": packer, "batch": batch}
        cells += [replace(cell, params={**cell.params, **params}) for cell in run.cells]
        for found in run.attempts:
            told = tuple(replace(s, facts={"ratio": at + 1.5}) for s in found.samples)
            attempts.append(replace(found, cell=found.cell + at * len(run.cells), samples=told))
    header = {**run.recorded, "charts": [asdict(TRADEOFF)]}
    return replace(run, recorded=header, cells=tuple(cells), attempts=tuple(attempts))


def test_suite_declared_chart_has_its_records(run: Run) -> None:
    shown = packed(run)
    chart = named(shown, "tradeoff")
    assert chart.records(run) == []
    records = [r for r in chart.records(shown) if (r["engine"], r["phase"]) == ("lmdb", "rand-key")]
    known = [(r["line"], r["point"], r["y"]) for r in records]
    assert known == [("zlib", 1, 1.5), ("zlib", 8, 2.5), ("lz4", 1, 3.5), ("lz4", 8, 4.5)]
    throughput = one(BY_NAME["throughput"].records(run), "lmdb")
    assert {(r["x"], r["x_low"], r["x_high"]) for r in records} == {
        tuple(throughput[name] for name in ("throughput", "low", "high"))
    }


WAIT = Curve("wait", "Wait", "Down is faster.", x=Axis("param", "clients"), y=Axis("metric", "p50"))


def test_parameter_chart_has_one_panel_for_several_values(run: Run) -> None:
    told = {**run.recorded, "charts": [asdict(WAIT)]}
    shown = by_clients(replace(run, recorded=told))
    chart = named(shown, "wait")
    (panel,) = (p for p in panels(chart, chart.records(shown)) if (p.phase, p.tier) == ("rand-key", "process"))
    assert [record["x"] for record in panel.records if record["engine"] == "lmdb"] == [1, 2, 4]
    assert chart.records(replace(run, recorded=told)) == []


def test_axis_marks_only_facts_within_its_range(run: Run) -> None:
    marked = replace(WAIT, x=Axis("param", "clients", marks=("knee", "beyond", "unheard-of")))
    told = {**run.recorded, "charts": [asdict(marked)]}
    shown = by_clients(replace(run, recorded=told))
    shown = changed(shown, lambda _, sample: replace(sample, facts={"knee": 3, "beyond": 9}))
    chart = named(shown, "wait")
    (panel,) = (p for p in panels(chart, chart.records(shown)) if (p.phase, p.tier) == ("rand-key", "process"))
    seen = texts(drawn(chart, shown, panel.records))
    assert seen.count("knee") == 1 and "beyond" not in seen and "unheard-of" not in seen


def test_parameter_lines_differ_in_colour_and_shape(run: Run) -> None:
    shown = packed(run)
    chart = named(shown, "tradeoff")
    (panel,) = (p for p in panels(chart, chart.records(shown)) if (p.phase, p.tier) == ("rand-key", "process"))
    alone = [record for record in panel.records if record["engine"] == "lmdb"]
    svg = drawn(chart, replace(shown, cells=tuple(c for c in shown.cells if c.engine == "lmdb")), alone)
    assert "lmdb, zlib, batch 8, op/s 198 k, gain 2.50" in ",".join(spoken(svg))
    assert texts(svg).count("zlib") == texts(svg).count("lz4") == 1, "one legend, of colours and shapes"
    symbols = re.findall(r'role-legend-symbol.*?<path[^>]*fill="(#\w+)"', svg)
    assert symbols == list(vega.PALETTE[:2])
    marks = [m for m in ElementTree.fromstring(svg).iter() if m.get("aria-roledescription") == "point"]
    looks = {
        (str(m.get("aria-label")).split(", ")[1], m.get("fill"), re.sub(r"[\d.,-]+", "", str(m.get("d"))))
        for m in marks
    }
    assert len(marks) == 4 and len(looks) == 2
    assert len({colour for _, colour, _ in looks}) == len({outline for _, _, outline in looks}) == 2


def test_charts_of_same_name_are_prefixed_by_suite(run: Run) -> None:
    one_suite = packed(run)
    other = replace(one_suite, recorded={**one_suite.recorded, "plan": {**run.recorded["plan"], "suite": "other"}})
    names = [[chart.name for chart in found][-1] for found in charts.of_runs([one_suite, other])]
    assert names == ["records:tradeoff", "other:tradeoff"]
    assert [chart.name for chart in charts.of_runs([one_suite, one_suite])[1]][-1] == "tradeoff"


# -- latency --------------------------------------------------------------------------------------------------


def spans(seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(seed).lognormal(9, 1.5, 4_000).astype(np.int64) + 1


def test_percentiles_pool_all_trials(run: Run) -> None:
    blocks = iter(range(10_000))
    seeds: dict[str, list[int]] = {}

    def known(name: str, sample: Sample) -> Sample:
        if sample.bulk:
            return sample
        seed = next(blocks)
        seeds.setdefault(f"{name} {sample.phase}", []).append(seed)
        return replace(sample, histogram=times(*spans(seed).tolist()), response=times(*(spans(seed) * 3).tolist()))

    opened = changed(run, known)
    records = BY_NAME["latency"].records(opened)
    for kind, factor in (("service time", 1), ("response time", 3)):
        record = one(records, "lmdb", kind=kind)
        values = np.sort(np.concatenate([spans(seed) for seed in seeds["lmdb rand-key"]])) * factor
        assert len(values) == 12_000
        # Latencies have three digits. Between two values, either one is right.
        lower = np.percentile(values, record["percentile"], method="lower")
        higher = np.percentile(values, record["percentile"], method="higher")
        assert (record["ns"] >= lower * 0.999).all() and (record["ns"] <= higher * 1.001).all()
        assert len(record["percentile"]) > 30 and record["ns"] == sorted(record["ns"])
        at = dict(zip(record["percentile"], record["ns"], strict=True))
        assert (at[50.0], at[90.0], at[99.0], at[99.9]) == tuple(record[p] for p in ("p50", "p90", "p99", "p999"))


def test_percentiles_need_ten_values_beyond_them(run: Run) -> None:
    hundred = changed(run, lambda _, s: replace(s, histogram=times(*range(1_000, 1_100))) if not s.bulk else s)
    record = one(BY_NAME["latency"].records(hundred), "lmdb")
    # Three trials of 100 operations have 300 values, of which ten are beyond 96.7 %.
    assert 96 < max(record["percentile"]) <= 100 - 10 * 100 / 300
    assert record["max"] == pytest.approx(1_099, abs=1)
    few = one(latency.brief(hundred), "lmdb")
    assert few["percentile"] == [50, 90]


def test_latency_curve_is_a_step_function(run: Run) -> None:
    hundred = changed(run, lambda _, s: replace(s, histogram=times(*range(1_000, 1_100))) if not s.bulk else s)
    svg = drawn(BY_NAME["latency"], hundred, [one(BY_NAME["latency"].records(hundred), "lmdb")])
    path = next(re.findall(r'd="([^"]+)"', svg[at:])[0] for at in [svg.index("mark-line")])
    points = [tuple(map(float, point.split(","))) for point in re.findall(r"[\d.]+,[\d.]+", path)]
    turns = [(one_[0] != next_[0]) + (one_[1] != next_[1]) for one_, next_ in pairwise(points)]
    assert len(points) > 20 and set(turns) <= {0, 1}, "along, or up, and never both"
    # A step goes up before it goes right.
    assert points[0][0] == points[1][0] and points[0][1] > points[1][1]


def test_latency_grid_is_small_and_has_usual_percentiles() -> None:
    assert len(latency.GRID) <= 60
    assert set(latency.MARKED) <= set(latency.GRID)


def test_response_time_curve_exists_only_in_open_loop(run: Run) -> None:
    chart = BY_NAME["latency"]
    assert {record["kind"] for record in chart.records(run)} == {"service time"}
    opened = changed(run, lambda _, s: s if s.bulk else replace(s, response=times(*range(1_000, 9_000, 10))))
    records = [r for r in chart.records(opened) if (r["engine"], r["phase"]) == ("lmdb", "rand-key")]
    assert [record["kind"] for record in records] == ["service time", "response time"]
    svg = drawn(chart, opened, records)
    assert {"service time", "response time"} <= set(texts(svg))
    assert any(label.startswith("lmdb, response time, 50 % at most") for label in spoken(svg))


def test_a_bulk_phase_has_no_latencies(run: Run) -> None:
    assert {record["phase"] for record in BY_NAME["latency"].records(run)} == {"rand-key", "mixed"}


# -- series ---------------------------------------------------------------------------------------------------


def test_series_has_trial_medians_and_zero_for_stalls(run: Run) -> None:
    counts = {0: (100, None, 120), 1: (200, 50, 130), 2: (300, None, 140)}
    parts = {block: over_seconds(run, *operations) for block, operations in counts.items()}
    mixed = replace(run, attempts=tuple(a for b, part in parts.items() for a in part.attempts if a.block == b))
    record = one(BY_NAME["series"].records(mixed), "lmdb")
    assert record["second"] == [1.0, 2.0, 3.0]
    assert record["rate"] == [200.0, 0.0, 130.0]
    assert record["p99_ns"] == [1_000, 1_001, 1_002], "of the trials that have one"
    assert (record["slowest"], record["median"], record["fastest"]) == (0.0, 130.0, 200.0)
    stalled = one(BY_NAME["series"].records(parts[0]), "lmdb")
    assert stalled["p99_ns"] == [1_000, None, 1_002]


def test_partial_last_second_is_scaled_or_dropped(run: Run) -> None:
    long = one(BY_NAME["series"].records(over_seconds(run, 100, 100, 80, elapsed=2.8)), "lmdb")
    assert long["rate"] == pytest.approx([100, 100, 100])
    short = one(BY_NAME["series"].records(over_seconds(run, 100, 100, 9, elapsed=2.1)), "lmdb")
    assert short["rate"] == [100, 100]


def test_phase_of_one_second_has_no_series(run: Run) -> None:
    assert BY_NAME["series"].records(run) == []
    assert BY_NAME["series"].records(over_seconds(run, 100)) == []


# -- units ----------------------------------------------------------------------------------------------------


def written(kind: str, *values: float) -> list[str]:
    """Returns the texts that Vega computes for these values."""
    spec = {
        "data": {"values": [{"v": value} for value in values]},
        "transform": [{"calculate": vega.figure(kind, "datum.v"), "as": "text"}],
        "mark": "text",
        "encoding": {"text": {"field": "text"}},
    }
    return texts(vl_convert.vegalite_to_svg(spec))


@pytest.mark.parametrize(
    ("kind", "figures"),
    [
        ("rate", {0: "0", 0.5: "0.5", 12.34: "12.3", 999.4: "999", 999.9: "1 k", 1.67e6: "1.67 M", 2e9: "2 G"}),
        ("ns", {7: "7 ns", 999.9: "1 µs", 1_234: "1.23 µs", 5e6: "5 ms", 2.5e9: "2.5 s", 1e11: "100 s"}),
        ("bytes", {100: "100 B", 1024: "1 KiB", 9.39 * 2**20: "9.39 MiB", 2**31: "2 GiB"}),
        ("factor", {0.5: "× 0.5", 1: "× 1", 6.667: "× 6.67"}),
    ],
)
def test_figures_are_formatted_with_readable_units(kind: str, figures: Mapping[float, str]) -> None:
    assert written(kind, *figures) == list(figures.values())


# -- theme ----------------------------------------------------------------------------------------------------


def linear(colour: str) -> Any:
    value = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Returns the contrast of two colours by the formula of WCAG."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("background", [vega.LIGHT, vega.DARK])
def test_colours_stand_out_from_both_backgrounds(background: str) -> None:
    used = [*vega.PALETTE, *(colour for colour, _ in vega.VERDICTS.values())]
    assert {colour: found for colour in used if (found := contrast(colour, background)) < 3} == {}
    config = vega.config(dark=background == vega.DARK)
    labels = (config["axis"]["labelColor"], config["axis"]["titleColor"], config["title"]["subtitleColor"])
    assert min(contrast(colour, background) for colour in (*labels, config["style"]["remark"]["fill"])) >= 4.5


# Matrices of Machado, Oliveira and Fernandes 2009: colours as seen without one kind of cone, in linear RGB.
SEEN = {
    "all": np.eye(3),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]
    ),
}


def oklab(rgb: Any) -> Any:
    cones = np.array([[0.41222, 0.53633, 0.05145], [0.2119, 0.68070, 0.1074], [0.0883, 0.28172, 0.62998]])
    mixed = np.array([[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]])
    return mixed @ np.cbrt(cones @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize(
    ("sight", "first_five", "all_of_them"),
    [("all", 0.14, 0.09), ("deutan", 0.08, 0.03), ("protan", 0.08, 0.03), ("tritan", 0.07, 0.03)],
)
def test_colours_differ_for_all_colour_vision_types(sight: str, first_five: float, all_of_them: float) -> None:
    seen = [oklab(SEEN[sight] @ linear(colour)) for colour in vega.PALETTE]
    apart = {(a, b): float(np.linalg.norm(seen[a] - seen[b])) for a, b in combinations(range(len(seen)), 2)}
    assert len(seen) >= 10
    assert min(found for (_, b), found in apart.items() if b < 5) >= first_five
    assert min(apart.values()) >= all_of_them


def test_many_engines_have_distinct_looks() -> None:
    engines = [f"engine-{at}" for at in range(40)]
    for channel in ("shape", "strokeDash"):
        looks = list(
            zip(vega.scale(engines, "color")["range"], map(str, vega.scale(engines, channel)["range"]), strict=True)
        )
        assert len(set(looks)) == len(looks)


def look(engines: Sequence[str]) -> dict[str, str]:
    scale = vega.scale(engines, "color")
    return dict(zip(scale["domain"], scale["range"], strict=True))


USUAL = ("leveldb", "lmdb", "memory", "rocksdb", "sqlite")


def test_engine_colour_is_stable_across_runs() -> None:
    known = look(USUAL)
    assert set(known.values()) == set(vega.PALETTE[:5]), "those that differ most"
    for count in range(1, len(USUAL)):
        for some in permutations(USUAL, count):
            assert look(some) == {name: known[name] for name in some}
    beside = look([*USUAL, *(f"other-{at}" for at in range(6))])
    assert len(set(beside.values())) == 11 == len(vega.PALETTE), "no two alike while there are colours"


def test_colours_are_independent_of_engine_order() -> None:
    names = [f"engine-{at}" for at in range(40)]
    assert look(names) == look(names[::-1]) == look(sorted(names))
    assert len({tuple(sorted(look(names[at : at + 11]).values())) for at in range(20)}) == 1


def test_an_engine_has_one_colour_in_all_charts(run: Run) -> None:
    shown = drawable(run)
    scale = vega.scale(notes.engines(shown), "color")
    colour = dict(zip(scale["domain"], scale["range"], strict=True))
    for chart in charts.list_charts(shown):
        # Colours of these charts don't stand for engines, but for verdicts, parameters, parts of a time or libraries.
        if chart.name in ("ratios", "tradeoff", "parts", "versions", "account", "flame", "flame-difference"):
            continue
        records = [r for r in chart.records(shown) if r["engine"] == "sqlite" and r["params"]["clients"] == 1]
        svg = drawn(chart, shown, [r for r in records if r["phase"] == "rand-key"])
        assert colour["sqlite"] in svg, chart.name


def test_chart_specs_use_only_theme_colours(run: Run) -> None:
    for chart in charts.list_charts(drawable(run)):
        used = set(re.findall(r"#[0-9a-fA-F]{3,6}\b", str(chart.spec(["a", "b"], "op"))))
        assert used <= {*vega.PALETTE, *(colour for colour, _ in vega.VERDICTS.values())}, chart.name
