"""Comparisons within a run, of two runs and in a history of runs, as sections, as sentences, and as JSON; and tables
of several runs: latencies by the place of the client, and costs by a table of prices.

docs/reference/compare-json.md documents every key of the JSON, which a test checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from statistics import median
from typing import Any

from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.report.tables import display, notes, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import bandwidth, costs, reported, varying
from dyno.report.tables.wording import LEVEL
from dyno.results import Run
from dyno.stats import two_runs
from dyno.stats.compare import Table, against
from dyno.stats.costs import Cost, Prices
from dyno.stats.history import CHANCE, SpeedChange
from dyno.stats.metric import BANDWIDTH, THROUGHPUT, Metric, speeds
from dyno.stats.summary import CellSummary, grouped, summarize
from dyno.stats.two_runs import Between, Change, Difference, GateResult, differences
from dyno.stats.verdict import CONFIDENCE

SCHEMA = 1
STATES = {"slower": "FAIL", "fine": "pass", "unclear": "unclear"}
GATE_LEVEL = f"{two_runs.CONFIDENCE * 100:g} %"
DIFFERENCE_HEADS = ("where", "what", "before", "after")
MOST_DIFFERENCES = 12
"""Maximum number of differences that are shown for a change in a history."""


# -- as sections --------------------------------------------------------------------------------------------


def within(run: Run, of: Sequence[Table], baseline: str | None, margin: float) -> list[Section]:
    """Returns a section for each table that has the baseline. If `baseline` is None, returns a section for each
    table, which compares with its best row."""
    changing = varying(run)
    sections = []
    for table in of:
        comparisons = against(table, baseline, margin)
        if not comparisons:
            continue
        several = len(table.tiers) > 1
        cells = [comparisons[0].baseline, *(c.engine for c in comparisons)]
        base, *engines = (_name(cell) if several else cell.label for cell in cells)
        best = f"which needs the least {table.metric.needs}" if table.metric.needs else "the fastest"
        remark = f"against {base}{'' if baseline else f', {best}'}"
        remark += _by_metric(table.metric)
        if table.limited:
            remark += f"; without {', '.join(c.label for c in table.limited)}, whose limit was the load generator"
        if table.warm:
            remark += f"; without {', '.join(c.label for c in table.warm)}, not proven to be cold"
        if several:
            remark += f"; the tiers differ: {display.ACROSS}"
        params = units.params(table.params, changing)
        tiers, tool = display.tiers(table.tiers), reported(table.reported_by)
        title = display.named(table.phase, tiers, params, tool, between="  ")
        rows = [
            (engine, *wording.ratio(c.verdict), str(c.verdict.blocks), wording.verdict(c.verdict, c.metric))
            for engine, c in zip(engines, comparisons, strict=True)
        ]
        sections.append(Section(title, remark, ("engine", "ratio", f"[{LEVEL}]", "samples", "verdict"), rows))
    return sections


def _by_metric(metric: Metric) -> str:
    if metric is THROUGHPUT:
        return ""
    if not metric.inverse:
        return f", by {metric.title}"
    better = f"less {metric.needs}" if metric.needs else "a shorter time"
    return f", by the {metric.title}: a ratio over 1 is {better}"


def changed(before: Run, after: Run, of: Sequence[Difference]) -> Section:
    """Returns the differences between two runs' plans, machines and engines."""
    old, new = (f"{run.path} ({_minute(run) or 'at an unknown time'})" for run in (before, after))
    return _differences(of, f"from {old} to {new}{'' if of else ': no recorded difference'}")


def _minute(run: Run) -> str:
    return str(run.header.get("created") or "")[:16].replace("T", " ")


def _differences(of: Sequence[Difference], remark: str) -> Section:
    def text(value: Any) -> str:
        if value is None:
            return units.UNKNOWN
        return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(units.yes_no(value))

    rows = [(d.where, d.what, text(d.before), text(d.after)) for d in of]
    return Section("What differs", remark, DIFFERENCE_HEADS, rows, left=DIFFERENCE_HEADS, keys=DIFFERENCE_HEADS[:2])


def between(of: Between, changing: Sequence[str]) -> list[Section]:
    """Returns a section for each phase and tier with a row in both runs."""
    rows = [(change, [wording.verdict(change.verdict, change.metric)]) for change in of.changes]
    return _by_phase(rows, ["verdict"], changing)


def gated(of: Sequence[GateResult], changing: Sequence[str]) -> list[Section]:
    """Returns sections like `between`, but for a gate, with the state of each row."""
    rows = [
        (
            replace(result.change, verdict=result.verdict),
            [wording.gated(result.verdict, result.change.metric), STATES[result.state]],
        )
        for result in of
    ]
    return _by_phase(rows, ["verdict", ""], changing, GATE_LEVEL)


def _by_phase(
    rows: Sequence[tuple[Change, list[str]]], last: Sequence[str], changing: Sequence[str], level: str = LEVEL
) -> list[Section]:
    def place(row: tuple[Change, list[str]]) -> tuple[str, str | None, str | None, Metric]:
        after = row[0].after
        return after.phase, after.cell.tier_name, after.reported_by, row[0].metric

    apart = any(row.server is not None for change, _ in rows for row in (change.before, change.after))
    sections = []
    for (phase, tier, tool, metric), of_place in groupby(rows, key=place):
        group = list(of_place)
        changes = [change for change, _ in group]
        more = {} if metric.inverse else _usage_columns(changes, metric, apart)
        lines = []
        for at, (change, texts) in enumerate(group):
            cell = change.after.cell
            tiers = [row.cell.tier_name or "" for row in (change.before, change.after)]
            moved = f" ({' → '.join(tiers)})" if tiers[0] != tiers[1] else ""
            params = [units.params(cell.params, changing)] if changing else []
            medians = [_median(row, metric) for row in (change.before, change.after)]
            usage = [column[at] for column in more.values()]
            lines.append([f"{cell.label}{moved}", *params, *medians, *usage, *wording.ratio(change.verdict), *texts])
        title = display.named(phase, display.tier(tier), reported(tool), between="  ")
        keys = ["engine", "parameters"] if changing else ["engine"]
        heads = [*keys, "before", "after", *more, "ratio", f"[{level}]", *last]
        sections.append(Section(title, _by_metric(metric).removeprefix(", "), heads, lines))
    return sections


def _usage_columns(changes: Sequence[Change], metric: Metric, apart: bool) -> Mapping[str, Sequence[str]]:
    """Returns columns of bandwidth and CPU time per item, before and after. Empty columns are left out."""
    columns = {"bandwidth": [(bandwidth(c.before), bandwidth(c.after)) for c in changes if metric is not BANDWIDTH]}
    cpu = [(costs(change.before, apart), costs(change.after, apart)) for change in changes]
    for name in cpu[0][0]:
        columns[name if name == "cpu" else f"{name} cpu"] = [(before[name], after[name]) for before, after in cpu]
    return {
        name: [f"{old or units.UNKNOWN} → {new or units.UNKNOWN}" if old or new else "" for old, new in pairs]
        for name, pairs in columns.items()
        if any(any(pair) for pair in pairs)
    }


def _median(row: CellSummary, metric: Metric) -> str:
    """Returns the median over trials by which the ratio is computed."""
    middle = median(speeds(row, metric).values())
    text = units.WRITERS[metric.kind](1 / middle if metric.inverse else middle)
    return f"{text} {row.unit}/s" if metric.kind == "items" else text


def history(of: Sequence[SpeedChange]) -> list[Section]:
    """Returns a section for each run at which a row's speed changed, each followed by the other differences."""
    sections = []
    for _, group in groupby(of, key=lambda step: str(step.at.path)):
        steps = list(group)
        at = steps[0].at
        title = f"{at.path}  {_minute(at)}".strip()
        heads = ("row", "before", "after", "ratio", f"[{LEVEL}]", "verdict")
        rows = []
        for step in steps:
            by = "" if step.metric is THROUGHPUT else step.metric.title
            name = display.named(step.row.phase, _name(step.row.cell), units.params(step.row.cell.params), by)
            runs = [f"{n} runs" for n in step.runs]
            rows.append((name, *runs, *wording.ratio(step.verdict), wording.verdict(step.verdict, step.metric)))
        sections.append(Section(title, "changed here", heads, rows, left=("row", "verdict"), keys=("row",)))
        for before in {str(step.before.path): step.before for step in steps}.values():
            if other := [d for d in differences(before, at) if d.where != "plan"][:MOST_DIFFERENCES]:
                sections.append(_differences(other, f"from {before.path}"))
    return sections


# -- as sentences -------------------------------------------------------------------------------------------


def conditions(run: Run) -> list[str]:
    """Returns conditions that hold for every figure. If two runs are compared, the conditions hold for both."""
    return [f"Measured with the {notes.AWAKE}."] if run.plan.get("awake") else []


def equal(margin: float) -> str:
    return f"Rows are called equal if a difference over {margin * 100:g} % can be ruled out."


def gone(of: Between) -> list[str]:
    """Returns a line for each row that has a number in only one of the runs, or is not compared."""
    lost = [f"{_name(row.cell)}, {row.phase}: only before; after: {why}" for row, why in of.lost]
    lost += [f"{_name(row.cell)}, {row.phase}: only after" for row in of.new]
    return lost + [
        f"{_name(row.cell)}, {row.phase}: {wording.not_compared(row.limit)}"
        for row in of.limited
        if row.limit is not None
    ]


def _name(cell: Cell) -> str:
    return display.engine(cell.label, cell.tier)


def summary(states: list[str], lost: int, margin: float, strict: bool, by: Metric | None = None) -> str:
    """Returns a sentence with the result of a gate. `by`: the requested metric."""
    worse = f"slower by more than {margin * 100:g} %"
    if by is not None and by.needs:
        worse = f"shown to need over {margin * 100:g} % more {by.needs}"
    parts = [f"{states.count('slower')} of {len(states)} rows {worse}"]
    if lost:
        parts.append(f"{lost} without a number now")
    if unclear := states.count("unclear"):
        effect = "which fails with --strict" if strict else "which passes without --strict"
        parts.append(f"{unclear} unclear, {effect}: more --samples would tell")
    return "; ".join(parts) + "."


def history_lines(of: Sequence[SpeedChange], runs: int) -> list[str]:
    """Returns lines that explain the changes in a series of `runs` runs."""
    chance = f"Of {round(1 / CHANCE)} rows without a change, one is named by chance."
    none = [] if of else [f"No row changed in {runs} runs."]
    return [*none, f"Each run's median is one value; a change has three runs on each side. {chance}"]


# -- as JSON ------------------------------------------------------------------------------------------------


def within_data(run: Run, of: Sequence[Table], baseline: str | None, margin: float) -> dict[str, Any]:
    return {
        **_head(margin),
        "run": str(run.path),
        "awake": bool(run.plan.get("awake")),
        "comparisons": [
            {
                **_row_data(c.phase, c.engine, c.metric, c.reported_by),
                "baseline": c.baseline.asked,
                "baseline_tier": c.baseline.tier_name,
                **asdict(c.verdict),
                "text": wording.verdict(c.verdict, c.metric),
            }
            for table in of
            for c in against(table, baseline, margin)
        ],
    }


def between_data(
    before: Run, after: Run, of: Between, margin: float, results: Sequence[GateResult] = ()
) -> dict[str, Any]:
    """Returns the JSON of two runs' comparison. `results`: a gate's results, one for each change."""
    rows = []
    for change in of.changes:
        sides = {"before": change.before, "after": change.after}
        row = {
            **_row_data(change.after.phase, change.after.cell, change.metric, change.after.reported_by),
            **{name: None if row.throughput is None else asdict(row.throughput) for name, row in sides.items()},
            "bandwidth": {
                name: None if row.bandwidth is None else asdict(row.bandwidth) for name, row in sides.items()
            },
            "cpu_ns_per_item": {
                name: {"client": side.client_cpu_ns, "server": side.server_cpu_ns} for name, side in sides.items()
            },
            "peak_bytes": {
                name: {"client": side.client_peak_bytes, "server": side.server_peak_bytes}
                for name, side in sides.items()
            },
            **asdict(change.verdict),
            "text": wording.verdict(change.verdict, change.metric),
        }
        rows.append(row)
    for row, result in zip(rows, results, strict=bool(results)):
        text = wording.gated(result.verdict, result.change.metric)
        row |= {**asdict(result.verdict), "text": text, "state": result.state}
    return {
        **_head(margin),
        **({"confidence": two_runs.CONFIDENCE} if results else {}),
        "before": str(before.path),
        "after": str(after.path),
        "awake": bool(after.plan.get("awake")),
        "in_turns": of.paired,
        "differences": [asdict(difference) for difference in of.differences],
        "changes": rows,
        "lost": [{**_row_data(row.phase, row.cell), "why": why} for row, why in of.lost],
        "new": [_row_data(row.phase, row.cell) for row in of.new],
        "limited": [_row_data(row.phase, row.cell) for row in of.limited],
    }


def _head(margin: float) -> dict[str, Any]:
    return {"schema": SCHEMA, "confidence": CONFIDENCE, "margin": margin}


def _row_data(phase: str, cell: Cell, metric: Metric | None = None, reported_by: str | None = None) -> dict[str, Any]:
    """Returns the keys of a row, without those of its figures if there is no `metric`."""
    figures = {} if metric is None else {"metric": metric.name, "reported_by": reported_by}
    place = {"phase": phase, "tier": cell.tier_name, "params": dict(cell.params)}
    return {**place, **figures, "engine": cell.asked}


# -- places and costs ---------------------------------------------------------------------------------------

COST_HEADS = ("run", "phase", "engine", "parameters", "rate", "p50", "bandwidth", "machines", "a million", "a month")
COST_KEYS = COST_HEADS[:4]


def by_place(runs: Sequence[Run]) -> Iterator[Section]:
    """Yields a table of all parts of the latency, by place and engine. Then, for each phase and combination of
    parameters, yields a table with the whole latency from each place to each engine. A place is named by its run
    file. Raises UsageError if no operation of any run has parts."""
    # Each line has its place, its row, and if the run has several, the phase and the parameters.
    lines = list[tuple[str, CellSummary, str]]()
    for run in runs:
        rows = [row for row in summarize(run) if not row.cell.floor]
        first = rows[0].cell.params if rows else {}
        several = [name for name in first if any(row.cell.params[name] != first[name] for row in rows)]
        phases = len({row.phase for row in rows}) > 1
        for row in rows:
            details = [row.phase if phases else "", units.params(row.cell.params, several)]
            lines.append((run.path.stem, row, " ".join(filter(None, details))))
    timed = {part for _, row, _ in lines for part in row.latency_by_part_ns}
    # The parts are in the suite's order. A row may lack some of them.
    parts = [part for part in dict.fromkeys(part for _, row, _ in lines for part in row.about.parts) if part in timed]
    if not parts:
        raise UsageError("--by place needs runs whose operations have parts of latency; these have none")
    keys = ["from", "to", *(["of"] if any(details for _, _, details in lines) else [])]
    cells, by_details = [], grouped((of, (place, row)) for place, row, of in lines)
    for place, row, of in lines:
        medians = [units.duration((row.latency_by_part_ns.get(part) or {}).get("p50")) for part in parts]
        whole = [units.duration(row.latency_ns[name]) for name in ("p50", "p99")]
        whole = whole if row.valid else [row.why or "", ""]
        cells.append([*[place, row.cell.label, of][: len(keys)], *medians, *whole, str(len(row.samples))])
    heads, legend = [*keys, *parts, "total p50", "p99", "trials"], ["medians of single operations, over all trials"]
    yield Section("", "", heads, cells, left=keys, keys=keys, legend=legend, rigid=keys)
    for of, placed in by_details.items():
        places = dict.fromkeys(place for place, _ in placed)
        engines = dict.fromkeys(row.cell.label for _, row in placed)
        if len(places) > 1:
            known = {(place, row.cell.label): row.latency_ns["p50"] for place, row in placed if row.valid}
            table = [[place, *(units.duration(known.get((place, name))) for name in engines)] for place in places]
            title = f"{of or placed[0][1].phase}: p50, from the left to the top"
            yield Section(title, heads=["", *engines], rows=table, left=[""], keys=[""], rigid=[""])


def _perhaps(least: str = units.UNKNOWN, most: str = "") -> str:
    """Returns '2, perhaps 3', or '2' if both are equal."""
    return least if most in ("", least) else f"{least}, perhaps {most}"


def by_cost(of: Sequence[tuple[Run, str, Sequence[Cost]]], prices: Prices) -> Section:
    """Returns the cost of each row by a user's table of prices, next to its figures. `of`: runs with their printed
    names and costs. Equal rows of several runs follow each other. Columns without any value are left out."""
    by_place: dict[tuple[object, ...], list[list[str]]] = {}
    for run, name, of_run in of:
        for cost in of_run:
            row, cell = cost.row, cost.row.cell
            cells = [
                name,
                row.phase,
                cell.label,
                units.params({name: cell.params[name] for name in varying(run)}),
                units.UNKNOWN if row.throughput is None else f"{units.rate(row.throughput.median)} {row.unit}/s",
                units.duration(row.latency_ns["p50"]),
                units.bandwidth(None if row.bandwidth is None else row.bandwidth.median),
                _perhaps(*(f"{number:,}" for number in cost.machines or ())),
                units.money(cost.million, prices.currency),
                _perhaps(*(units.money(each, prices.currency) for each in (cost.month, cost.month_most))),
            ]
            by_place.setdefault((row.phase, cell.asked, cell.tier, cell.combination), []).append(cells)
    rows = [cells for of_place in by_place.values() for cells in of_place]
    used = [at for at in range(len(COST_HEADS)) if any(row[at] not in ("", units.UNKNOWN) for row in rows)]
    heads, *shown = ([cells[at] for at in used] for cells in (COST_HEADS, *rows))
    stored = "the measured store's size" if prices.kept_gb is None else f"{prices.kept_gb:,g} GB"
    machine = " and the machine for the time they take at this rate" if prices.machines else ""
    hours = "the machine, " if prices.machines else ""
    if prices.load is not None:
        free = f", {prices.headroom * 100:g} % of each kept free" if prices.headroom else ""
        legend = (
            f"machines: for {prices.load:,g} op/s{free}, by both ends of the capacity's interval; a closed loop's"
            f" throughput is no capacity. a month: {stored} stored, what this load is charged, {hours}and fixed fees"
        )
        return Section(f"Cost by {prices.file}", "", heads, shown, left=COST_KEYS, keys=COST_KEYS, legend=[legend])
    legend = (
        f"a million: of the phase's operations{machine}. a month: {stored} stored, {prices.millions:,g} million of"
        f" the phase's operations, {hours}and fixed fees"
    )
    return Section(f"Cost by {prices.file}", "", heads, shown, left=COST_KEYS, keys=COST_KEYS, legend=[legend])
