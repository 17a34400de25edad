"""One table of runs from many places: from where, to where, each part of the latency. A place is named by its run
file. Figures are medians of single operations, over all trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dyno.contracts.model import UsageError
from dyno.report.tables import units
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.stats.summary import CellSummary, summarize


@dataclass(frozen=True)
class _Line:
    place: str
    row: CellSummary
    details: str
    """Phase and parameters, if the run has several."""


def sections(runs: Sequence[Run]) -> Iterator[Section]:
    """All parts of the latency; then, for each phase and parameters, the whole latency from each place to each
    engine. Raises UsageError if no operation of any run has parts."""
    lines = [line for run in runs for line in _lines(run)]
    timed = {part for line in lines for part in line.row.latency_by_part_ns}
    # In the suite's order; a row may have some of them.
    parts = [part for part in dict.fromkeys(part for line in lines for part in line.row.about.parts) if part in timed]
    if not parts:
        raise UsageError("--by place needs runs whose operations have parts of latency; these have none")
    details = ["of"] if any(line.details for line in lines) else []
    keys = ["from", "to", *details]
    yield Section(
        "",
        heads=[*keys, *parts, "total p50", "p99", "trials"],
        rows=[_cells(line, parts, bool(details)) for line in lines],
        left=keys,
        keys=keys,
        rigid=keys,
        legend=["medians of single operations, over all trials"],
    )
    for details_ in dict.fromkeys(line.details for line in lines):
        of = [line for line in lines if line.details == details_]
        places = list(dict.fromkeys(line.place for line in of))
        engines = list(dict.fromkeys(line.row.cell.label for line in of))
        if len(places) > 1:
            known = {(line.place, line.row.cell.label): line.row.latency_ns["p50"] for line in of if line.row.valid}
            rows = [[place, *(units.duration(known.get((place, name))) for name in engines)] for place in places]
            title = f"{details_ or of[0].row.phase}: p50, from the left to the top"
            yield Section(title, heads=["", *engines], rows=rows, left=[""], keys=[""], rigid=[""])


def _lines(run: Run) -> Iterator[_Line]:
    rows = [row for row in summarize(run) if not row.cell.floor]
    several = {name for row in rows for name, value in row.cell.params.items() if value != rows[0].cell.params[name]}
    phases = len({row.phase for row in rows}) > 1
    for row in rows:
        params = units.params({name: row.cell.params[name] for name in row.cell.params if name in several})
        yield _Line(run.path.stem, row, " ".join(filter(None, [row.phase if phases else "", params])))


def _cells(line: _Line, parts: Sequence[str], details: bool) -> list[str]:
    row = line.row
    medians = [units.duration((row.latency_by_part_ns.get(part) or {}).get("p50")) for part in parts]
    whole = [units.duration(row.latency_ns[name]) for name in ("p50", "p99")] if row.valid else [row.why or "", ""]
    return [line.place, row.cell.label, *([line.details] if details else []), *medians, *whole, str(len(row.samples))]
