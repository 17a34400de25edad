"""A run and the attempts at its trials, in memory, with the labels of its rows: see docs/reference/run-file.md.

A label is the requested engine. If the run has several versions of the engine, the version is added; if another
product answered, the label names that product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, convert

from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Amount, Count, Fact, Loop, Positive, Resources, Strain, Text
from dyno.contracts.limits import Limit
from dyno.contracts.model import DECIDED, STAND_IN_PREFIX, VERSION, Caveat, Phase, Tier, weakest
from dyno.contracts.profile import ProfiledTrial
from dyno.contracts.value_types import JsonMapping
from dyno.fields import Sample
from dyno.results.header import Header, RecordedPlan, drop_unknown_facts


class Extension(Struct, frozen=True):
    """A line of a run that was resumed with more samples than it was begun with."""

    samples: Positive


class End(Struct, frozen=True):
    """The last line of a run whose number of blocks was not fixed."""

    why: Text


FLOOR_BLOCKS = 3
"""Number of blocks in which every null engine has a trial. A later block repeats a null engine only while its
interval is wide."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a trial: its outcome, and its measurements up to its end."""

    cell: Count
    block: Count
    attempt: Count
    outcome: Text
    """'ok', 'wrong' (voided by a wrong answer outside a phase), 'crash', 'timeout', 'out-of-memory', 'refused' or
    'error'."""
    why: Text | None
    phase: Text | None
    """The phase in which the attempt ended, if its outcome is not 'ok'."""
    samples: tuple[Sample, ...]
    started: Text
    """Time in UTC, in the format of ISO 8601."""
    duration_ns: Count
    version: Text | None
    settings: Mapping[Text, Fact] | None
    caveats: tuple[Caveat, ...]
    resources: Resources
    """Usage of the whole trial: `client`, `server` and `peak_anonymous_bytes`."""
    output: Text | None
    """The end of the trial's output, if its outcome is not 'ok'."""
    loop: Loop | None = None
    """Name, clock and cost of the measuring loop: see `measure.loop.describe_loop`."""
    absent: Mapping[Text, Text] = field(default_factory=dict)
    """Phases that make no sense for the engine, each with the reason."""
    facts: Mapping[Text, Fact] = field(default_factory=dict)
    """The suite's facts about the whole trial, by name."""
    spent_ns: Mapping[Text, Count] = field(default_factory=dict)
    """The worker's time by lap: see docs/reference/run-file.md."""
    tier: Tier | None = None
    """The tier that the settings of a user's own server provide. None for other engines, or if it can't be read."""
    stage: Text | None = None
    """For a probe in a search for a capacity: the stage of the search, and the operations due per second."""
    rate: Amount | None = None
    strain: Strain = field(default_factory=dict)
    """Load of the machine during the trial: see `host.facts.subtract_counters`."""

    @property
    def sound(self) -> bool:
        """Whether the attempt ended well, and none of its phases is void."""
        return self.outcome == "ok" and not any(sample.void for sample in self.samples)


@dataclass(frozen=True, eq=False)
class Run:
    """A loaded run file. Runs are compared by identity, so that they can be keys."""

    path: Path
    recorded: JsonMapping
    """The first line as the file has it, without the cells and undeclared keys: for output that repeats it."""
    cells: tuple[Cell, ...]
    attempts: tuple[Attempt, ...]
    ending: str | None = None
    """Why an ended run with `until` added no further block: 'narrow', 'decided', 'time', or 'forecast' if the open
    comparisons would have taken longer than there was time. None for other runs."""
    profiled: tuple[ProfiledTrial, ...] = ()
    """Profiled trials. Their times are in no figure, so they are no attempts."""

    @cached_property
    def header(self) -> Header:
        return convert(drop_unknown_facts(self.recorded), Header)

    @property
    def plan(self) -> RecordedPlan:
        return self.header.plan

    @property
    def commit(self) -> str | None:
        """The short hash of the commit from which the run was started, and whether there were changes; None if it is
        unknown."""
        commit = self.header.commit
        if commit is None:
            return None
        return commit.short

    @cached_property
    def phases(self) -> Mapping[str, Phase]:
        """The suite's declarations of the plan's phases; defaults if the run file lacks them."""
        declared = {phase.name: phase for phase in self.header.phases or ()}
        return {name: declared.get(name) or Phase(name) for name in self.plan.phases}

    def final(self) -> list[Attempt]:
        """Returns the last attempt of every trial that has ended."""
        return list({(a.cell, a.block): a for a in self.attempts}.values())

    @cached_property
    def blocks(self) -> int:
        """The planned number of blocks. With `until`, the number of blocks that have begun, if it is larger or the
        run has ended."""
        planned = self.plan.samples
        if self.plan.until is None and not self.limits:
            return planned
        begun = max((attempt.block + 1 for attempt in self.attempts), default=0)
        if self.ending:
            return begun
        return max(planned, begun)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits under which the run searches capacities; empty for another run."""
        return self.plan.limits

    @property
    def complete(self) -> bool:
        if self.limits or (self.plan.until is not None and self.ending is None):
            return self.ending is not None
        if self.plan.until == DECIDED:
            return True
        ended = Counter(attempt.cell for attempt in self.final())
        return all(ended[at] >= self.trials(at) for at in range(len(self.cells)))

    def trials(self, cell: int) -> int:
        """Returns the number of trials of a cell: one in each block, fewer for a null engine."""
        if is_reference(self.cells, self.cells[cell]):
            return min(self.blocks, FLOOR_BLOCKS)
        return self.blocks

    @property
    def progress(self) -> tuple[int, int]:
        """The number of trials that have ended, and the number of all trials."""
        ended = Counter(attempt.cell for attempt in self.final())
        if self.plan.until == DECIDED and self.ending is not None:
            return ended.total(), ended.total()
        return ended.total(), sum(max(self.trials(at), ended[at]) for at in range(len(self.cells)))


def defined_work(definition: JsonMapping | None) -> dict[str, object]:
    """Returns the user's definition of the work, empty if there is none. It has neither the directory of the user's
    code nor paths of data files, because the same files may be elsewhere; the SHA-256 of data files stays."""
    work = dict(definition or {})
    work.pop("directory", None)
    tables = work.get("tables")
    if isinstance(tables, dict):
        work["tables"] = {
            name: {key: value for key, value in table.items() if key != "file"} if isinstance(table, dict) else table
            for name, table in tables.items()
        }
    return work


def is_reference(cells: Iterable[Cell], cell: Cell) -> bool:
    """Returns whether the cell is a null engine's in a run of other engines. Such a cell only shows the harness's
    cost."""
    return cell.floor and not all(other.floor for other in cells)


def apply_server_tiers(cells: Sequence[Cell], attempts: Iterable[Attempt]) -> None:
    """Sets the tier of each cell that follows its server to the weakest tier of its trials. If no other cell is left
    at a null engine's tier, the null engine gets the new tier too."""
    tiers: dict[int, Tier] = {}
    for each in attempts:
        if each.tier is not None and cells[each.cell].follows:
            tiers[each.cell] = weakest((tiers.get(each.cell, each.tier), each.tier))
    by_planned = {cells[at].tier: tier for at, tier in tiers.items()}
    for at, tier in tiers.items():
        object.__setattr__(cells[at], "tier", tier)
    left = {cell.tier for cell in cells if not cell.floor}
    for cell in cells:
        if cell.floor and cell.tier not in left and cell.tier in by_planned:
            object.__setattr__(cell, "tier", by_planned[cell.tier])


URL = "url"
PROGRAM = "program"
"""Option that selects another program of the same server. The label then has the program's version rather than its
path."""


def set_labels(cells: Sequence[Cell], attempts: Sequence[Attempt]) -> None:
    """Sets the labels of cells whose engine name alone is ambiguous."""
    versions = {each.cell: number for each in attempts if (number := _number(each.version))}
    by_engine: dict[str, dict[str, str]] = {}
    for at, cell in enumerate(cells):
        if not cell.floor and at in versions:
            by_engine.setdefault(cell.engine, {})[cell.asked] = versions[at]
    several = {engine for engine, of in by_engine.items() if len(set(of.values())) > 1}
    several |= {cell.engine for cell in cells if PROGRAM in cell.options}
    # Versions in the names of rows are those of their packages, which need not be numbered like the engine.
    versioned = {cell.engine for cell in cells if VERSION in cell.options}
    named = {
        at: f"{cell.engine} {versions[at]}"
        for at, cell in enumerate(cells)
        if cell.engine in several and at in versions
        if cell.engine not in versioned or PROGRAM in cell.options
    }
    for each in attempts:
        engine = cells[each.cell].engine
        if each.version and any(caveat.code == STAND_IN_PREFIX + engine for caveat in each.caveats):
            # The server was another product than the engine's name says: 'MariaDB 10.11.19 (as mysql)'.
            named[each.cell] = f"{each.version.partition('(')[0].strip()} (as {engine})"
    named = {at: name for at, name in named.items() if cells[at].name is None}
    short = {cells[at].asked: f"{name}{_options(cells[at], PROGRAM)}" for at, name in named.items()}
    for at, name in named.items():
        # Two programs of the same version differ only in their paths.
        alone = list(short.values()).count(short[cells[at].asked]) == 1
        object.__setattr__(cells[at], "label", short[cells[at].asked] if alone else f"{name}{_options(cells[at])}")
    # Shorten an address to 'postgresql at db.example:5432/shop' if no other row has the same short label.
    unnamed = [cell for at, cell in enumerate(cells) if cell.name is None and at not in named]
    places = {cell.asked: place for cell in unnamed if (place := _place(cell))}
    for cell in unnamed:
        place = places.get(cell.asked)
        if place is not None and list(places.values()).count(place) == 1:
            object.__setattr__(cell, "label", place)


def _place(cell: Cell) -> str | None:
    """Returns the label with the address without user, password and query; None if the row has no valid address."""
    text = str(cell.options.get(URL, ""))
    try:
        address = urlsplit(text)
        host, port = address.hostname, address.port
    except ValueError:
        return None
    if "://" not in text or not host:
        return None
    host = f"[{host}]" if ":" in host else host
    return f"{cell.engine} at {host}{'' if port is None else f':{port}'}{address.path}{_options(cell, URL)}"


def _options(cell: Cell, without: str = "") -> str:
    options = {name: value for name, value in cell.options.items() if name != without}
    return Cell("", "", options, None, {}).label


def _number(version: str | None) -> str | None:
    """Returns '15.18' for 'PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)'."""
    match = re.search(r"(?<!\S)v?(\d\S*)", (version or "").partition("(")[0])
    if match:
        return match[1]
    return None
