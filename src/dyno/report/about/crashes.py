"""What engines lost when they were killed and their power was cut, as a table on a terminal and in Markdown, and the
witness of each fault in words.

Of the plain data of a file of `dyno crash`. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units
from dyno.report.tables.sections import bullets, plain
from dyno.report.tables.sections import table as markdown_table

Row = Mapping[str, Any]
COLUMNS = ("engine", "tier", "declared", "traced", "killed", "cut", "recovery", "birth", "device", "verdict")
KEYS = ("engine", "tier")
OPTIONAL = "device"
"""A column that is left out where no row has it."""
STYLES = {
    "held": "green",
    "broken": "bold red",
    "failed": "bold red",
    "not covered": "yellow",
    "not judged": "yellow",
}
MOST_WORDS = 8
"""Lines of a witness."""
LEGEND = (
    "Declared: the settings that give the tier. Traced: what `dyno selftest --tiers` says of its system calls."
    " Killed: SIGKILLs at random moments on one store. Cut: states of its files after a cut of power, by the model of"
    " a file system; recovery: a second cut while it recovers; birth: nothing durable but what it flushed since it"
    " was made; device: states of a disk with a real file system."
    " n ok: all were. Lost: acknowledged commits were not there; the number at most."
)


def render(rows: Sequence[Row], console: Console) -> None:
    names = _columns(rows)
    columns = [
        grid.Column(name, left=True, folds=True, style="bold" if name == "engine" else "", key=name in KEYS)
        for name in names
    ]
    cells = [_cells(row) for row in rows]
    styles = {texts["verdict"]: STYLES.get(row["verdict"], "") for row, texts in zip(rows, cells, strict=True)}
    grid.render(columns, [[texts[name] for name in names] for texts in cells], console, marks=styles)
    for line in _witnesses(rows):
        console.print(Text(line), soft_wrap=True)
    console.print(Text(LEGEND, "dim"))
    for line in versions(rows):
        console.print(Text(line, "dim"))
    console.print(
        Text(summary(rows), "bold red" if {"broken", "failed"} & {row["verdict"] for row in rows} else "bold")
    )


def markdown(rows: Sequence[Row]) -> str:
    cells = [_cells(row) for row in rows]
    columns = {name: [row[name] for row in cells] for name in _columns(rows)}
    parts = [
        markdown_table(columns, list(columns)),
        bullets(map(plain, (line.strip() for line in _witnesses(rows)))),
        LEGEND,
        bullets(map(plain, versions(rows))),
        f"{summary(rows)}.",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def versions(rows: Sequence[Row]) -> list[str]:
    """A line for each engine that told its version, and what was special about it."""
    told = {row["engine"].partition(":")[0]: row["version"] for row in rows if row["version"]}
    notes = dict.fromkeys(f"{row['engine']}, {row['tier']}: {note}" for row in rows for note in row.get("notes", ()))
    return [*(f"{engine}: {version}" for engine, version in told.items()), *notes]


def summary(rows: Sequence[Row]) -> str:
    """'12 held, 1 broken'."""
    verdicts = [row["verdict"] for row in rows]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))


def _columns(rows: Sequence[Row]) -> list[str]:
    return [name for name in COLUMNS if name != OPTIONAL or any(row[OPTIONAL] for row in rows)]


def _cells(row: Row) -> dict[str, str]:
    cut = units.outcomes(row["cut"])
    return {
        "engine": row["engine"],
        "tier": row["tier"],
        "declared": units.params({name: units.yes_no(value) for name, value in row["settings"].items()}),
        "traced": row["traced"] or units.UNKNOWN,
        "killed": units.outcomes(row["killed"]),
        "cut": f"{cut}, {row['model']}" if row["cut"] else cut,
        "recovery": units.outcomes(row["recovery"]),
        "birth": units.outcomes(row["birth"]),
        "device": f"{units.outcomes(row['device'])}, {row['system']}" if row["device"] else units.UNKNOWN,
        "verdict": f"{row['verdict']}: {row['why']}" if row["why"] else row["verdict"],
    }


def _witnesses(rows: Sequence[Row]) -> list[str]:
    """Of each fault what was found, and how little had to be lost for it."""
    lines: list[str] = []
    for row in rows:
        for fault in row.get("faults", ()):
            lines.append(f"{row['engine']}, {row['tier']}, {fault['when']}: {fault['outcome']}: {fault['why']}")
            words = fault["witness"]
            lines += [f"    {word}" for word in words[:MOST_WORDS]]
            if len(words) > MOST_WORDS:
                lines.append(f"    and {len(words) - MOST_WORDS} more")
            if fault["directory"]:
                lines.append(f"    kept in {fault['directory']}")
    return lines
