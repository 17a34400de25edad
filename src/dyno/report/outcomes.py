"""Prints outcomes of commands other than runs: an HTTP request as a waterfall of its stages; tiers by their system
calls (`dyno selftest --tiers`) and tiers by crashes (`dyno crash`), on a terminal and in Markdown. This module prints
plain data and judges nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from dyno.contracts.value_types import JsonMapping
from dyno.report.tables import units
from dyno.report.tables.sections import Column, bullets, plain, print_sentence, print_table
from dyno.report.tables.sections import table as markdown_table

WIDTH = 50
"""Width of the total time, in character columns."""


def print_waterfall(record: JsonMapping, console: Console) -> None:
    """Prints each hop with its stages on one time axis, then the totals and the doubts."""
    total, start = record["total_time"], 0.0
    for hop in record["hops"]:
        code = hop["http_code"]
        version = hop["http_version"]
        address = hop["primary_ip"]
        words = [
            f"{hop['method']} {hop['url']}",
            "" if code is None else f"{code}",
            "" if version is None else f"HTTP/{version}",
            "" if address is None else f"from {address} port {hop['primary_port']}",
            "on the same connection" if hop["reused"] else "",
        ]
        print_sentence(Text(", ".join(filter(None, words)), style="bold"), console)
        rows = []
        for name, seconds in hop["stages"].items():
            bar = ""
            if seconds is not None and total:
                first, end = round(WIDTH * start / total), round(WIDTH * (start + seconds) / total)
                bar = " " * min(first, WIDTH - 1) + ("█" * (end - first) or "▏")
            rows.append((name, _time(seconds), bar))
            start += seconds or 0.0
        columns = [Column("", left=True), Column(""), Column("", left=True, spare=True)]
        print_table(columns, rows, console, indent=2)
    words = [f"total {_time(total)}"]
    if record["redirect_count"]:
        words.append(f"{record['redirect_count']} redirects {_time(record['redirect_time'])}")
    words += [f"{units.count(record['size_download'])} bytes", units.bandwidth(record["speed_download"])]
    print_sentence(Text(", ".join(words), style="bold"), console)
    if record["error"] is not None:
        print_sentence(Text(f"error: {record['error']}", style="bold red"), console)
    _print_doubts(record, console)


def print_summary(record: JsonMapping, console: Console) -> None:
    """Prints the percentiles of each stage over many requests."""
    codes = ", ".join(f"{times:,} × {code}" for code, times in record["http_codes"].items())
    console.print(Text(f"{record['url']}: {record['count']:,} requests; {codes or 'no response'}", style="bold"))
    names = ("min", "p50", "p90", "p99", "max")
    stages = [*record["stages"].items(), ("total", record["total_time"])]
    rows = [(stage, *(_time(times and times[name]) for name in names)) for stage, times in stages]
    print_table([Column("", left=True), *map(Column, names)], rows, console)
    for error, times in record["errors"].items():
        print_sentence(Text(f"error: {times:,} × {error}", style="bold red"), console)
    _print_doubts(record, console)


def _time(seconds: float | None) -> str:
    return units.duration(None if seconds is None else seconds * 1e9)


def _print_doubts(record: JsonMapping, console: Console) -> None:
    for doubt in record["doubts"]:
        print_sentence(Text(f"doubt: {doubt}", style="yellow"), console)


# -- tiers --------------------------------------------------------------------------------------------------

Row = JsonMapping
STYLES = {
    **dict.fromkeys(("proven", "held"), "green"),
    **dict.fromkeys(("broken", "failed"), "bold red"),
    **dict.fromkeys(("declared, not proven", "not covered", "not judged"), "yellow"),
}
MOST_WITNESSES = 8
"""Maximum number of printed lines of a fault's witness."""


@dataclass(frozen=True)
class ProofTable:
    """A table of tiers, each with a verdict. Rows are plain data, the same that the commands print with --json."""

    columns: tuple[str, ...]
    cells: Callable[[Row], dict[str, str]]
    """Returns the texts of a row by column, without engine, tier and verdict."""
    legend: str
    figures: tuple[str, ...] = ()
    """Columns of figures; the other columns are texts."""
    optional: str = ""
    """A column that is left out if no row has a value for it."""

    def render(self, rows: Sequence[Row], console: Console) -> None:
        names, cells = self._texts(rows)
        columns = []
        for name in names:
            words, style = name not in self.figures, "bold" if name == "engine" else ""
            columns.append(Column(name, words, folds=words, style=style, key=name in ("engine", "tier")))
        styles = {texts["verdict"]: STYLES.get(row["verdict"], "") for row, texts in zip(rows, cells, strict=True)}
        print_table(columns, [[texts[name] for name in names] for texts in cells], console, marks=styles)
        for line in _witnesses(rows):
            print_sentence(Text(line), console)
        for line in (self.legend, *_versions(rows)):
            print_sentence(Text(line, "dim"), console)
        wrong = {"broken", "failed"} & {row["verdict"] for row in rows}
        console.print(Text(_summary(rows), "bold red" if wrong else "bold"))

    def markdown(self, rows: Sequence[Row]) -> str:
        names, cells = self._texts(rows)
        texts = [[each[name] for name in names] for each in cells]
        parts = [
            markdown_table(names, texts, [name for name in names if name not in self.figures]),
            bullets(map(plain, (line.strip() for line in _witnesses(rows)))),
            self.legend,
            bullets(map(plain, _versions(rows))),
            f"{_summary(rows)}.",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _texts(self, rows: Sequence[Row]) -> tuple[list[str], list[dict[str, str]]]:
        names = [name for name in self.columns if name != self.optional or any(row[name] for row in rows)]
        verdicts = [f"{row['verdict']}: {row['why']}" if row["why"] else str(row["verdict"]) for row in rows]
        place = [{"engine": row["engine"], "tier": row["tier"]} for row in rows]
        cells = [{**at, **self.cells(row), "verdict": v} for at, row, v in zip(place, rows, verdicts, strict=True)]
        return names, cells


def _versions(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each engine with a known version, and for each note."""
    versions = {row["engine"].partition(":")[0]: row["version"] for row in rows if row["version"]}
    notes = dict.fromkeys(f"{row['engine']}, {row['tier']}: {note}" for row in rows for note in row.get("notes", ()))
    return [*(f"{engine}: {version}" for engine, version in versions.items()), *notes]


def _summary(rows: Sequence[Row]) -> str:
    """Counts the verdicts: '12 proven, 1 broken'."""
    verdicts = [row["verdict"] for row in rows]
    return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))


def _witnesses(rows: Sequence[Row]) -> Iterator[str]:
    """Yields each fault with its witness, the smallest set of lost changes that causes it."""
    for row in rows:
        for fault in row.get("faults", ()):
            yield f"{row['engine']}, {row['tier']}, {fault['when']}: {fault['outcome']}: {fault['why']}"
            lines = fault["witness"]
            yield from (f"    {line}" for line in lines[:MOST_WITNESSES])
            if len(lines) > MOST_WITNESSES:
                yield f"    and {len(lines) - MOST_WITNESSES} more"
            if fault["directory"]:
                yield f"    kept in {fault['directory']}"


def _settings(row: Row) -> str:
    return units.params({name: units.yes_no(value) for name, value in row["settings"].items()})


def _tier_cells(row: Row) -> dict[str, str]:
    texts = {"settings": _settings(row)}
    for name in ("flushes", "writes"):
        kinds = [f"{kind} {n}" for kind, n in (row[name] or {}).items()]
        if row[name] is None:
            texts[name] = units.UNKNOWN
        else:
            texts[name] = ", ".join(kinds) or "none"
    for name in ("flushed", "written"):
        if row[name] is None:
            texts[name] = units.UNKNOWN
        else:
            texts[name] = f"{row[name]} of {row['commits']}"
    return texts


def _crash_cells(row: Row) -> dict[str, str]:
    tallies = {name: row[name] for name in ("killed", "cut", "recovery", "birth", "device")}
    outcomes = {
        name: units.outcomes(tally["outcomes"], tally["lost"]) if tally else units.UNKNOWN
        for name, tally in tallies.items()
    }
    for name, where in (("cut", "model"), ("device", "system")):
        if row[name]:
            outcomes[name] += f", {row[where]}"
    return {"declared": _settings(row), "traced": row["traced"] or units.UNKNOWN, **outcomes}


TIERS = ProofTable(
    columns=("engine", "tier", "settings", "flushes", "flushed", "writes", "written", "verdict"),
    cells=_tier_cells,
    legend="Flushes, writes: system calls from the first commit to the last, by kind."
    " Flushed, written: commits that were flushed or written before they were acknowledged.",
    figures=("flushed", "written"),
)
CRASHES = ProofTable(
    columns=("engine", "tier", "declared", "traced", "killed", "cut", "recovery", "birth", "device", "verdict"),
    cells=_crash_cells,
    legend="Declared: the tier's settings. Traced: the verdict of `dyno selftest --tiers` on its system calls."
    " Killed: SIGKILLs at random moments on one store. Cut: states of its files after a power cut, by the model of"
    " a file system; recovery: a second cut while it recovers; birth: a cut in which nothing survives but what it"
    " flushed since its creation; device: states of a disk with a real file system."
    " n ok: all commits survived. Lost: acknowledged commits are missing, in brackets the most.",
    optional="device",
)
