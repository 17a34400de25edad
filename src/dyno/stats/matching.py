"""Matches the rows of several runs: by label first, then by engine and options."""

from collections.abc import Hashable, Sequence

from dyno.contracts.cell import Cell
from dyno.results import Run
from dyno.stats.summary import CellSummary, group_values, summarize

Key = tuple[Hashable, ...]


def matched_rows(runs: Sequence[Run]) -> list[dict[Key, CellSummary]]:
    """Returns the rows of each run, without null engines, by a key that is the same for the same row of all runs.

    A row is known by its label, whatever its options. A row without a label has that of the same engine and options
    in another run, unless its own run gives the label to another row.
    """
    labels = group_values((cell.asked, cell.name) for run in runs for cell in run.cells if cell.name is not None)
    return [
        _rows_of(run, {asked: names[0] for asked, names in labels.items() if len(set(names)) == 1}) for run in runs
    ]


def _rows_of(run: Run, labels: dict[str, str]) -> dict[Key, CellSummary]:
    taken = {cell.name or cell.asked for cell in run.cells}

    def name_of(cell: Cell) -> str:
        label = labels.get(cell.asked, cell.asked)
        return cell.name or (cell.asked if label in taken else label)

    # Figures of an outside tool can't be compared with Dyno's own. Another version of the tool is only a difference.
    return {
        (
            row.phase,
            # Without a sample, the suite's declaration says whether an outside tool measures the row.
            row.reported_by is not None or (not row.samples and row.about.reported),
            # On a user's own server, the tier depends on the server's settings, which may have changed between the
            # runs.
            "follows" if row.cell.follows else row.cell.tier,
            name_of(row.cell),
            row.cell.combination,
        ): row
        for row in summarize(run)
        if not row.cell.floor
    }
