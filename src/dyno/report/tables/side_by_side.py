"""Tables of several runs side by side: latencies by the place of the client, and costs by a table of prices."""

from collections.abc import Iterator, Sequence

from dyno.contracts.model import UsageError
from dyno.report.tables import units
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.results.names import distinct_names
from dyno.stats.costs import Cost, Prices
from dyno.stats.summary import CellSummary, group_values, summarize

COST_HEADS = ("run", "phase", "engine", "parameters", "rate", "p50", "bandwidth", "machines", "a million", "a month")
COST_KEYS = COST_HEADS[:4]


def by_place(runs: Sequence[Run]) -> Iterator[Section]:
    """Yields a table of all parts of the latency, by place and engine. Then, for each phase and combination of
    parameters, yields a table with the whole latency from each place to each engine. A place is named by its run
    file. Raises UsageError if no operation of any run has parts."""
    # Each line has its place, its row, and if the run has several, the phase and the parameters.
    lines = list[tuple[str, CellSummary, str]]()
    for name, run in zip(distinct_names([run.path for run in runs]), runs, strict=True):
        rows = [row for row in summarize(run) if not row.cell.floor]
        first = rows[0].cell.params if rows else {}
        several = [param for param in first if any(row.cell.params[param] != first[param] for row in rows)]
        phases = len({row.phase for row in rows}) > 1
        for row in rows:
            details = [row.phase if phases else "", units.params(row.cell.params, several)]
            lines.append((name, row, " ".join(filter(None, details))))
    timed = {part for _, row, _ in lines for part in row.latency_by_part_ns}
    # The parts are in the suite's order. A row may lack some of them.
    parts = [part for part in dict.fromkeys(part for _, row, _ in lines for part in row.about.parts) if part in timed]
    if not parts:
        raise UsageError("--by place needs runs whose operations have parts of latency; these have none")
    keys = ["from", "to", *(["of"] if any(details for _, _, details in lines) else [])]
    cells, by_details = [], group_values((of, (place, row)) for place, row, of in lines)
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


def _format_range(least: str = units.UNKNOWN, most: str = "") -> str:
    """Returns '2, perhaps 3', or '2' if both are equal."""
    if most in ("", least):
        return least
    return f"{least}, perhaps {most}"


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
                units.params({name: cell.params[name] for name in varying_params(run)}),
                units.UNKNOWN if row.throughput is None else f"{units.rate(row.throughput.median)} {row.unit}/s",
                units.duration(row.latency_ns["p50"]),
                units.bandwidth(None if row.bandwidth is None else row.bandwidth.median),
                _format_range(*(f"{number:,}" for number in cost.machines or ())),
                units.money(cost.million, prices.currency),
                _format_range(*(units.money(each, prices.currency) for each in (cost.month, cost.month_most))),
            ]
            by_place.setdefault((row.phase, cell.row, cell.tier, cell.combination), []).append(cells)
    rows = [cells for of_place in by_place.values() for cells in of_place]
    used = [at for at in range(len(COST_HEADS)) if any(row[at] not in ("", units.UNKNOWN) for row in rows)]
    heads, *shown = ([cells[at] for at in used] for cells in (COST_HEADS, *rows))
    if prices.kept_gb is None:
        stored = "the measured store's size"
    else:
        stored = f"{prices.kept_gb:,g} GB"
    if prices.machines:
        machine = " and the machine for the time they take at this rate"
    else:
        machine = ""
    hours = ""
    if prices.machines:
        hours = "the machine, "
    if prices.load is not None:
        if prices.headroom:
            free = f", {prices.headroom * 100:g} % of each kept free"
        else:
            free = ""
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
