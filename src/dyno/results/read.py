"""Reads a run file, so that nobody has to ask afterwards: what is loaded is of the right types, within its limits,
and of one piece. A histogram alone is decoded only when it is looked at."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.model import UsageError
from dyno.contracts.sample import Cell, Sample
from dyno.contracts.value_types import MOST_POINTS, MOST_TEXT
from dyno.results import labels, tiers
from dyno.results.header import End, Header
from dyno.results.parse import cleaned, damaged, lines, parsed
from dyno.results.run import Attempt, Run
from dyno.text.sanitize import sanitize

SCHEMA = 3
READABLE = (1, 2, 3)
_ALIKE = ("outcome", "version", "settings", "caveats", "loop", "absent")
_ALIKE_OF_SAMPLES = ("phase", "unit", "ended_by", "temperature")
_OFTEN_EMPTY = ("by_kind", "by_part", "facts")
_EMPTY: Mapping[str, Any] = {}
# Years that are dates in every zone.
FIRST_YEAR, LAST_YEAR = 1900, 9900


def load(path: Path) -> Run:
    """Reads a run file. Raises UsageError, in one line, for anything that is not one."""
    # Nothing of it is garbage, of which there is more to be looked through with every trial.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _loaded(path)
    finally:
        if collecting:
            gc.enable()


def _loaded(path: Path) -> Run:
    found = lines(path)
    header, cells = opening(path, next(found, b""))
    attempts, phases, ending, once = [], frozenset(header["plan"]["phases"]), None, _keeper()
    for number, line in enumerate(found, 2):
        try:
            data = parsed(line)
            if not isinstance(data, dict):
                raise ValueError("not an object")
            # One that is followed by further lines ended a run that was gone on with.
            ending = typed(data, End)["why"] if data.get("kind") == "end" else None
            if data.get("kind") == "trial":
                attempts.append(_lean(attempt(data, len(cells), phases), once))
        except ValueError as error:
            raise damaged(path, error, number) from None
    tiers.follow(cells, attempts)
    labels.give(cells, attempts)
    return Run(path, header, cells, tuple(attempts), ending)


def _keeper() -> Callable[[Any], Any]:
    """Gives of values that are equal always the same one."""
    known: dict[bytes, Any] = {}
    encode = msgspec.json.Encoder().encode
    return lambda value: known.setdefault(encode(value), value)


def _lean(found: Attempt, once: Callable[[Any], Any]) -> Attempt:
    """The same, without what many trials of an engine have alike: a run may have a hundred thousand of them."""
    for name in _ALIKE:
        object.__setattr__(found, name, once(getattr(found, name)))
    for name in ("facts", "spent_ns"):
        if not getattr(found, name):
            object.__setattr__(found, name, _EMPTY)
    for each in found.samples:
        for name in _ALIKE_OF_SAMPLES:
            object.__setattr__(each, name, once(getattr(each, name)))
        for name in _OFTEN_EMPTY:
            if not getattr(each, name):
                object.__setattr__(each, name, _EMPTY)
    return found


def planned(path: Path) -> tuple[Cell, ...]:
    """The cells as the plan has them, whatever tier its trials found. Raises UsageError."""
    return opening(path, next(lines(path), b""))[1]


def opening(path: Path, line: bytes) -> tuple[Header, tuple[Cell, ...]]:
    """What the first line of the file says. Raises UsageError."""
    try:
        data = parsed(line)
    except ValueError as error:
        if line.startswith(b'{"kind"'):
            raise damaged(path, error, 1) from None
        data = None
    if not isinstance(data, dict) or data.get("kind") != "run":
        raise UsageError(f"{path} is not a run file of dyno")
    if data.get("schema") not in READABLE:
        readable = f"{', '.join(map(str, READABLE[:-1]))} and {READABLE[-1]}"
        raise UsageError(f"{path} has schema {_short(data.get('schema'))}; this dyno reads {readable}")
    try:
        return begun(data)
    except ValueError as error:
        raise damaged(path, error, 1) from None


def begun(data: Mapping[str, Any]) -> tuple[Header, tuple[Cell, ...]]:
    """The header and the cells of a first line's JSON. Raises ValueError."""
    found: dict[str, Any] = typed(data, Header)
    cells: tuple[Cell, ...] = found.pop("cells")
    # An earlier version let cores sleep, without saying so.
    found["plan"].setdefault("awake", False)
    if len(set(found["plan"]["phases"])) < len(found["plan"]["phases"]):
        raise ValueError("plan.phases: one is there twice")
    for at, cell in enumerate(cells):
        if cell.params.keys() != cells[0].params.keys():
            raise ValueError(f"cells[{at}].params: not those of the first cell")
        clients, rate = cell.params.get("clients", 1), cell.params.get("rate", "max")
        if type(clients) is not int or clients < 1:
            raise ValueError(f"cells[{at}].params.clients: expected a number of clients")
        if rate != "max" and not (type(rate) in (int, float) and float(rate) > 0):
            raise ValueError(f"cells[{at}].params.rate: expected operations a second, or max")
    if (created := found.get("created")) is not None:
        _moment("created", created, zone=False)
    return found, cells


def attempt(data: Mapping[str, Any], cells: int, phases: Collection[str]) -> Attempt:
    """An attempt from its JSON, of a run of so many cells and these phases. Raises ValueError."""
    found: Attempt = typed(data, Attempt)
    if any(len(text) > MOST_TEXT for caveat in found.caveats for text in (caveat.code, caveat.text)):
        # Engines' declarations have caveats, too, and know no decoder.
        found = typed(cleaned(data), Attempt)
    if found.cell >= cells:
        raise ValueError(f"cell: {found.cell} of {cells}, counted from 0")
    _moment("started", found.started, zone=True)
    measured = [sample.phase for sample in found.samples]
    for name in (*measured, *found.absent):
        if name not in phases:
            raise ValueError(f"the phase {_short(name)} is not in the plan")
    if len(set(measured)) < len(measured):
        raise ValueError("samples: two are of one phase")
    for at, one in enumerate(found.samples):
        _sound(one, f"samples[{at}].")
    return found


def sample(data: Mapping[str, Any]) -> Sample:
    """A sample from its JSON; fields of a later schema are passed over. Raises ValueError."""
    found: Sample = typed(data, Sample)
    _sound(found)
    return found


def _sound(found: Sample, where: str = "") -> None:
    """Raises ValueError for figures that can't be true together."""
    if found.errors > found.operations:
        raise ValueError(f"{where}errors: {found.errors} of {found.operations} operations")
    about = found.residency
    if about is not None and (about["resident_bytes"] or 0) > about["file_bytes"]:
        raise ValueError(f"{where}residency: more is resident than there is")
    if found.series:
        interval = found.series[0]["interval_ns"]
        if max(point["from_ns"] for point in found.series) // interval >= MOST_POINTS:
            raise ValueError(f"{where}series: more than {MOST_POINTS} intervals")


def _moment(where: str, text: str, zone: bool) -> None:
    """Raises ValueError for what is no date and time, or has no zone where it needs one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or not FIRST_YEAR <= found.year <= LAST_YEAR or (zone and found.tzinfo is None):
        raise ValueError(f"{where}: expected a date and a time by ISO 8601{', with its zone' * zone}")


def _short(value: object) -> str:
    return sanitize(str(value), 80, "")


def typed(data: Any, kind: Any) -> Any:
    """The data as it is declared; what is not declared is passed over. Raises ValueError, with where and what."""
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            # A text may be too long.
            return msgspec.convert(cleaned(data), kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = where.removesuffix("`").removeprefix(".")
        raise ValueError(f"{place}{place and ': '}{what[0].lower()}{what[1:]}") from None
