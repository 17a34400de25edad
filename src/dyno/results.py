"""The run file: every trial's outcome and samples, and all that is needed to judge and to repeat them.

Lines of JSON. The first describes the run (schema, plan, cells, machine); every later one is a trial, appended and
flushed to the device as soon as it has ended. A last line that a killed process left torn is passed over, and cut
off before the file is appended to. Docs: docs/run-file.md.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from dyno.model import Caveat, Cell, Fact, Phase, Sample, Tier, UsageError

SCHEMA = 3
READABLE = (1, 2, 3)
FLOOR_BLOCKS = 3
"""In so many blocks each null engine has a trial; in further ones only as long as its interval is wide."""
OPENING = b'{"kind":"run"'


@dataclass(frozen=True)
class Attempt:
    """One execution of a trial: how it ended, and what it measured up to there."""

    cell: int
    block: int
    attempt: int
    outcome: str
    """'ok', 'wrong' (voided by an answer outside a phase), 'crash', 'timeout', 'out-of-memory', 'refused' or
    'error'."""
    why: str | None
    phase: str | None
    """Where it ended, for an outcome other than 'ok'."""
    samples: tuple[Sample, ...]
    started: str
    """UTC, ISO 8601."""
    duration_ns: int
    version: str | None
    settings: Mapping[str, Any] | None
    caveats: tuple[Caveat, ...]
    resources: Mapping[str, Any]
    """`client` and `server`: what their processes used in the whole trial; and `peak_anonymous_bytes`."""
    output: str | None
    """The end of what the trial printed; kept only where it did not end well."""
    loop: Mapping[str, Any] | None = None
    """Which loop measured, by which clock, and what it costs: see `measure.loops.about`."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Phases that make no sense for the engine, and why."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What the suite tells of the trial as a whole, by name."""
    spent_ns: Mapping[str, int] = field(default_factory=dict)
    """Where the worker's time went, by part: see docs/run-file.md."""
    strain: Mapping[str, Any] = field(default_factory=dict)
    """What the machine suffered during the trial: see `host.strain.since`."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run file, read. It is equal to itself alone, and so can be a key."""

    path: Path
    header: Mapping[str, Any]
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
        told = {found["name"]: found for found in self.header.get("phases", ())}
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


def create(path: Path, header: Mapping[str, Any], cells: list[Cell], replace: bool = False) -> None:
    """Writes a new run file with no trials. Raises UsageError if it is there and may not be replaced."""
    line = {"kind": "run", "schema": SCHEMA, **header, "cells": [asdict(cell) for cell in cells]}
    try:
        if replace:
            _check_replaced(path)
            # The old one is there until the new one is.
            part = path.with_name(f".dyno-{os.getpid()}.part")
            part.unlink(missing_ok=True)
            _begin(part, line)
            part.replace(path)
        else:
            _begin(path, line)
    except FileExistsError:
        hint = "--resume continues it, --overwrite replaces it, -o names another"
        raise UsageError(f"{path} exists: {hint}") from None
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def _begin(path: Path, line: Mapping[str, Any]) -> None:
    """A new file with that line; none, if it can't be written."""
    with path.open("x") as file:
        try:
            _write(file, line)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _check_replaced(path: Path) -> None:
    """What is not a run file, be it one that was killed in its first line, is refused by its reading."""
    if path.exists():
        with path.open("rb") as file:
            ours = file.read(len(OPENING)) == OPENING
        if not ours:
            load(path)


def append(path: Path, attempt: Attempt) -> None:
    """Adds one attempt, flushed to the device. Raises OSError."""
    _add(path, {"kind": "trial", **asdict(attempt)})


def end(path: Path, why: str) -> None:
    """Says why no further block was added. Raises OSError."""
    _add(path, {"kind": "end", "why": why})


def _add(path: Path, line: Mapping[str, Any]) -> None:
    try:
        # A run file that was taken away is not made anew: it would have no header.
        with open(path, "a", opener=lambda name, flags: os.open(name, flags & ~os.O_CREAT)) as file:
            _write(file, line)
    except OSError as error:
        error.filename = str(path)
        raise


def _write(file: IO[str], line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, separators=(",", ":")) + "\n")
    file.flush()
    os.fsync(file.fileno())


def mend(path: Path) -> None:
    """Cuts off a torn last line, so that the next one starts on a line of its own. Raises UsageError for a file that
    can't be written: before there is something to write."""
    try:
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def load(path: Path) -> Run:
    """Reads a run file. Raises UsageError, in one line, for anything that is not one."""
    try:
        lines = list(_lines(path))
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a run file of dyno") from None
    if not lines or not isinstance(lines[0], dict) or lines[0].get("kind") != "run":
        raise UsageError(f"{path} is not a run file of dyno")
    header = lines[0]
    if header.get("schema") not in READABLE:
        readable = f"{', '.join(map(str, READABLE[:-1]))} and {READABLE[-1]}"
        raise UsageError(f"{path} has schema {header.get('schema')}; this dyno reads {readable}")
    try:
        _check_header(header)
        cells = tuple(_cell(data) for data in header["cells"])
        attempts = tuple(_attempt(line) for line in lines[1:] if line.get("kind") == "trial")
        # An earlier version let cores sleep, without saying so.
        header["plan"].setdefault("awake", False)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, error) from None
    last = lines[-1]
    return Run(path, header, cells, attempts, last.get("why") if last.get("kind") == "end" else None)


def damaged(path: Path, error: Exception) -> UsageError:
    """For what can't be made sense of."""
    return UsageError(f"{path} is damaged: {type(error).__name__}: {error}")


def _check_header(header: Mapping[str, Any]) -> None:
    """Raises TypeError, KeyError or ValueError for a header that no run can have."""
    if not header["cells"]:
        raise ValueError("no cells")
    plan, host, layout = header["plan"], header["host"], header.get("layout")
    if not (isinstance(plan, dict) and isinstance(host, dict) and isinstance(plan["phases"], list)):
        raise TypeError("the plan and the host are tables")
    if layout is not None and not all(isinstance(column["name"], str) for column in layout["columns"]):
        raise TypeError("the columns of the layout have names")
    for name in ("samples", "seed", "budget", "suite"):
        if plan[name] is None:
            raise ValueError(f"the plan has no {name}")


def _lines(path: Path) -> Iterator[Any]:
    with path.open() as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                # Torn by a kill; `mend` cuts it off, even where only the end of line is missing.
                return
            try:
                yield json.loads(line)
            except ValueError:
                if number == 1:
                    raise UsageError(f"{path} is not a run file of dyno") from None
                raise UsageError(f"{path} is damaged in line {number}") from None


def _cell(data: Mapping[str, Any]) -> Cell:
    return Cell(**{**data, "tier": None if data["tier"] is None else Tier(data["tier"])})


_ATTEMPT, _SAMPLE, _PHASE = (frozenset(known.name for known in fields(kind)) for kind in (Attempt, Sample, Phase))


def _attempt(data: Mapping[str, Any]) -> Attempt:
    values = {name: value for name, value in data.items() if name in _ATTEMPT}
    values["samples"] = tuple(sample(found) for found in data["samples"])
    values["caveats"] = tuple(Caveat(**caveat) for caveat in data["caveats"])
    return Attempt(**values)


def _phase(name: str, data: Mapping[str, Any]) -> Phase:
    """Fields of a later schema are passed over."""
    values = {key: value for key, value in data.items() if key in _PHASE}
    values = {"title": name, "unit": "op", "writes": False, **values, "name": name}
    return Phase(**{**values, "parts": tuple(values.get("parts", ()))})


def sample(data: Mapping[str, Any]) -> Sample:
    """A sample from its JSON; fields of a later schema are passed over."""
    for name in ("operations", "items", "elapsed_ns", "busy_ns", "errors"):
        if not isinstance(data[name], int):
            raise TypeError(f"{name} is {data[name]!r}")
    values = {name: value for name, value in data.items() if name in _SAMPLE}
    values["series"] = tuple(values.get("series", ()))
    values["facts"] = dict(values.get("facts") or {})
    return Sample(**values)
