"""The verdicts of a self-test on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

NAME_WIDTH = 9
SIGNS = {True: ("pass", "green"), False: ("FAIL", "bold red"), None: ("none", "yellow")}


class Check(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def guards(self) -> str: ...


class Verdict(Protocol):
    @property
    def passed(self) -> bool | None: ...

    @property
    def text(self) -> str: ...


def line(check: Check, verdict: Verdict, console: Console) -> None:
    """What was guarded, and under it what was found."""
    sign, style = SIGNS[verdict.passed]
    console.print(Text.assemble((sign, style), "  ", (f"{check.name:<{NAME_WIDTH}}", "bold"), check.guards))
    console.print(Padding(Text(verdict.text, "dim"), (0, 0, 0, len(sign) + 2 + NAME_WIDTH), expand=False))


def summary(verdicts: Sequence[Verdict], console: Console) -> None:
    passed = sum(verdict.passed is True for verdict in verdicts)
    failed = sum(verdict.passed is False for verdict in verdicts)
    rest = len(verdicts) - passed - failed
    parts = [f"{passed} passed", f"{failed} failed"] + ([f"{rest} could not be made here"] if rest else [])
    console.print(Text(", ".join(parts), "bold red" if failed else "bold"))
