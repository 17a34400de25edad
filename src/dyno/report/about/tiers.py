"""What tiers of durability were proven to be worth, as a table on a terminal and in Markdown.

Of the plain data that `dyno selftest --tiers --json` prints. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from dyno.report.tables import grid, units
from dyno.report.tables.sections import bullets, plain
from dyno.report.tables.sections import table as markdown_table

Proof = Mapping[str, Any]
COLUMNS = ("engine", "tier", "settings", "flushes", "flushed", "writes", "written", "verdict")
KEYS = ("engine", "tier")
FIGURES = ("flushed", "written")
STYLES = {"proven": "green", "broken": "bold red", "failed": "bold red", "declared, not proven": "yellow"}
LEGEND = (
    "Flushes, writes: calls of the kernel from the first commit to the last, by kind."
    " Flushed, written: commits that were so when they were acknowledged."
)


def render(proofs: Sequence[Proof], console: Console) -> None:
    columns = [
        grid.Column(
            name,
            left=name not in FIGURES,
            folds=name not in FIGURES,
            style="bold" if name == "engine" else "",
            key=name in KEYS,
        )
        for name in COLUMNS
    ]
    cells = [{**_cells(proof), "verdict": _verdict(proof)} for proof in proofs]
    styles = {_verdict(proof): STYLES.get(proof["verdict"], "") for proof in proofs}
    grid.render(columns, [[row[name] for name in COLUMNS] for row in cells], console, marks=styles)
    console.print(Text(LEGEND, "dim"))
    for line in versions(proofs):
        console.print(Text(line, "dim"))
    console.print(Text(summary(proofs), "bold red" if {"broken", "failed"} & set(_counts(proofs)) else "bold"))


def markdown(proofs: Sequence[Proof]) -> str:
    rows = [{**_cells(proof), "verdict": _verdict(proof)} for proof in proofs]
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    words = [name for name in COLUMNS if name not in FIGURES]
    parts = [markdown_table(columns, words), LEGEND, bullets(map(plain, versions(proofs))), f"{summary(proofs)}."]
    return "\n\n".join(filter(None, parts)) + "\n"


def versions(proofs: Sequence[Proof]) -> list[str]:
    """A line for each engine that told its version."""
    told = {proof["engine"].partition(":")[0]: proof["version"] for proof in proofs if proof["version"]}
    return [f"{engine}: {version}" for engine, version in told.items()]


def summary(proofs: Sequence[Proof]) -> str:
    """'12 proven, 5 nothing promised'."""
    return ", ".join(f"{count} {verdict}" for verdict, count in _counts(proofs).items())


def _counts(proofs: Sequence[Proof]) -> dict[str, int]:
    verdicts = [proof["verdict"] for proof in proofs]
    return {verdict: verdicts.count(verdict) for verdict in dict.fromkeys(verdicts)}


def _cells(proof: Proof) -> dict[str, str]:
    settings = {name: _word(value) for name, value in proof["settings"].items()}
    return {
        "engine": proof["engine"],
        "tier": proof["tier"],
        "settings": units.params(settings),
        "flushes": _kinds(proof["flushes"]),
        "flushed": _of(proof, "flushed"),
        "writes": _kinds(proof["writes"]),
        "written": _of(proof, "written"),
    }


def _verdict(proof: Proof) -> str:
    return f"{proof['verdict']}: {proof['why']}" if proof["why"] else str(proof["verdict"])


def _word(value: object) -> object:
    return ("yes" if value else "no") if isinstance(value, bool) else value


def _kinds(counts: Mapping[str, int] | None) -> str:
    if counts is None:
        return units.UNKNOWN
    return ", ".join(f"{kind} {number}" for kind, number in counts.items()) or "none"


def _of(proof: Proof, name: str) -> str:
    return units.UNKNOWN if proof[name] is None else f"{proof[name]} of {proof['commits']}"
