"""A run, and one attempt at a trial of it: what a run file has, in memory. How it is read and written may not be put
here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from dyno.contracts.decoded_types import Count, Fact, Loop, Resources, Strain, Text
from dyno.contracts.model import Caveat, Phase, Tier
from dyno.contracts.sample import Cell, Sample
from dyno.results.header import Header

FLOOR_BLOCKS = 3
"""In so many blocks each null engine has a trial; in further ones only as long as its interval is wide."""
_PHASE = frozenset(known.name for known in fields(Phase))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a trial: how it ended, and what it measured up to there."""

    cell: Count
    block: Count
    attempt: Count
    outcome: Text
    """'ok', 'wrong' (voided by an answer outside a phase), 'crash', 'timeout', 'out-of-memory', 'refused' or
    'error'."""
    why: Text | None
    phase: Text | None
    """Where it ended, for an outcome other than 'ok'."""
    samples: tuple[Sample, ...]
    started: Text
    """UTC, ISO 8601."""
    duration_ns: Count
    version: Text | None
    settings: Mapping[Text, Fact] | None
    caveats: tuple[Caveat, ...]
    resources: Resources
    """`client` and `server`: what their processes used in the whole trial; and `peak_anonymous_bytes`."""
    output: Text | None
    """The end of what the trial printed; kept only where it did not end well."""
    loop: Loop | None = None
    """Which loop measured, by which clock, and what it costs: see `measure.loop.about`."""
    absent: Mapping[Text, Text] = field(default_factory=dict)
    """Phases that make no sense for the engine, and why."""
    facts: Mapping[Text, Fact] = field(default_factory=dict)
    """What the suite tells of the trial as a whole, by name."""
    spent_ns: Mapping[Text, Count] = field(default_factory=dict)
    """Where the worker's time went, by part: see docs/run-file.md."""
    tier: Tier | None = None
    """What the settings of a user's own server give; None for any other engine, and if nobody can read them."""
    strain: Strain = field(default_factory=dict)
    """What the machine suffered during the trial: see `host.strain.since`."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run file, read. It is equal to itself alone, and so can be a key."""

    path: Path
    header: Header
    cells: tuple[Cell, ...]
    attempts: tuple[Attempt, ...]
    ending: str | None = None
    """Of a run that adds blocks until its intervals are narrow, and has ended: 'narrow' or 'time'."""

    @property
    def plan(self) -> Mapping[str, Any]:
        plan: Mapping[str, Any] = self.header["plan"]
        return plan

    @cached_property
    def phases(self) -> Mapping[str, Phase]:
        """What the suite says of the phases of the plan; of a run file that does not tell, as good as nothing."""
        told = {found["name"]: found for found in self.header.get("phases") or ()}
        return {name: _phase(name, told.get(name, {})) for name in self.plan["phases"]}

    def final(self) -> list[Attempt]:
        """The last attempt of every trial that has ended."""
        return list({(a.cell, a.block): a for a in self.attempts}.values())

    @cached_property
    def blocks(self) -> int:
        """How many there are to be: as many as were planned, or were begun where their number was left open."""
        planned = int(self.plan["samples"])
        if self.plan.get("until") is None:
            return planned
        begun = max((attempt.block + 1 for attempt in self.attempts), default=0)
        return begun if self.ending else max(planned, begun)

    @property
    def complete(self) -> bool:
        if self.plan.get("until") is not None and self.ending is None:
            return False
        ended = Counter(attempt.cell for attempt in self.final())
        return all(ended[at] >= self.trials(at) for at in range(len(self.cells)))

    def trials(self, cell: int) -> int:
        """How many a cell is to have: one in each block, and fewer of a null engine's."""
        return min(self.blocks, FLOOR_BLOCKS) if beside(self.cells, self.cells[cell]) else self.blocks

    @property
    def progress(self) -> tuple[int, int]:
        """The number of trials that have ended, and of those that there are to be."""
        ended = Counter(attempt.cell for attempt in self.final())
        return ended.total(), sum(max(self.trials(at), ended[at]) for at in range(len(self.cells)))


def beside(cells: Iterable[Cell], cell: Cell) -> bool:
    """Whether it is a null engine's, in a run of others: its figure is wanted for theirs, and not for itself."""
    return cell.floor and not all(other.floor for other in cells)


def _phase(name: str, data: Mapping[str, Any]) -> Phase:
    """Fields of a later schema are passed over."""
    values = {key: value for key, value in data.items() if key in _PHASE}
    values = {"title": name, "unit": "op", "writes": False, **values, "name": name}
    return Phase(**{**values, "parts": tuple(values.get("parts", ()))})
