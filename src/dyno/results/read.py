"""Reads a run file and checks it: loaded values have the declared types, are within their limits, and fit together.

Histograms are decoded later, when they are needed.
"""

import gc
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.cell import Cell
from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize
from dyno.contracts.value_types import MOST_POINTS, MOST_TEXT
from dyno.fields import Sample
from dyno.results.header import End, Header
from dyno.results.parse import cleaned, damaged, lines, parsed
from dyno.results.run import Attempt, Run, apply_server_tiers, set_labels

SCHEMA = 3
READABLE = (1, 2, 3)
# Fields whose values are equal in many trials of an engine.
_COMMON = ("outcome", "version", "settings", "caveats", "loop", "absent")
_COMMON_OF_SAMPLES = ("phase", "unit", "ended_by", "temperature")
_OFTEN_EMPTY = ("by_kind", "by_part", "facts")
_EMPTY: Mapping[str, Any] = {}
_encode = msgspec.json.Encoder().encode
# Dates in these years are valid in every time zone.
FIRST_YEAR, LAST_YEAR = 1900, 9900


def load(path: Path) -> Run:
    """Reads a run file. For any other file, raises UsageError with a one-line message."""
    # Loading creates no garbage, but each collection would traverse all trials again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _loaded(path)
    finally:
        if collecting:
            gc.enable()


def _loaded(path: Path) -> Run:
    remaining = lines(path)
    header, cells = opening(path, next(remaining, b""))
    attempts, phases, ending, known = [], frozenset(header["plan"]["phases"]), None, dict[bytes, Any]()
    for number, line in enumerate(remaining, 2):
        try:
            data = parsed(line)
            if not isinstance(data, dict):
                raise ValueError("not an object")
            # If further lines follow an `end` line, the run was resumed.
            ending = typed(data, End)["why"] if data.get("kind") == "end" else None
            if data.get("kind") == "trial":
                attempts.append(attempt(data, len(cells), phases))
                _share(attempts[-1], known)
        except ValueError as error:
            raise damaged(path, error, number) from None
    apply_server_tiers(cells, attempts)
    set_labels(cells, attempts)
    return Run(path, header, cells, tuple(attempts), ending)


def _share(attempt: Attempt, known: dict[bytes, Any]) -> None:
    """Shares equal values between attempts, because a run may have 100,000 of them. `known` has the values, keyed by
    their JSON."""
    for name in _COMMON:
        value = getattr(attempt, name)
        object.__setattr__(attempt, name, known.setdefault(_encode(value), value))
    for name in ("facts", "spent_ns"):
        if not getattr(attempt, name):
            object.__setattr__(attempt, name, _EMPTY)
    for each in attempt.samples:
        for name in _COMMON_OF_SAMPLES:
            value = getattr(each, name)
            setattr(each, name, known.setdefault(_encode(value), value))
        for name in _OFTEN_EMPTY:
            if not getattr(each, name):
                setattr(each, name, _EMPTY)


def planned(path: Path) -> tuple[Cell, ...]:
    """Returns the planned cells, without the tiers that trials read from servers. Raises UsageError."""
    return opening(path, next(lines(path), b""))[1]


def opening(path: Path, line: bytes) -> tuple[Header, tuple[Cell, ...]]:
    """Parses the file's first line; returns the header and the cells. Raises UsageError."""
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
    """Returns the header and the cells from the first line's JSON. Raises ValueError."""
    header: dict[str, Any] = typed(data, Header)
    cells: tuple[Cell, ...] = header.pop("cells")
    # Files of earlier versions lack the key: those versions let cores sleep.
    header["plan"].setdefault("awake", False)
    if len(set(header["plan"]["phases"])) < len(header["plan"]["phases"]):
        raise ValueError("plan.phases: a phase is listed twice")
    for at, cell in enumerate(cells):
        if cell.params.keys() != cells[0].params.keys():
            raise ValueError(f"cells[{at}].params: not the parameters of the first cell")
        clients, rate = cell.params.get("clients", 1), cell.params.get("rate", "max")
        if type(clients) is not int or clients < 1:
            raise ValueError(f"cells[{at}].params.clients: expected a number of clients")
        if rate != "max" and not (type(rate) in (int, float) and float(rate) > 0):
            raise ValueError(f"cells[{at}].params.rate: expected operations a second, or max")
    if (created := header.get("created")) is not None:
        _check_moment("created", created, zone=False)
    return header, cells


def attempt(data: Mapping[str, Any], cells: int, phases: Collection[str]) -> Attempt:
    """Converts the JSON of an attempt, in a run of `cells` cells with these phases. Raises ValueError."""
    attempt: Attempt = typed(data, Attempt)
    if any(len(text) > MOST_TEXT for caveat in attempt.caveats for text in (caveat.code, caveat.text)):
        # The decoder does not limit the texts of caveats: engines declare them too, without importing msgspec.
        attempt = typed(cleaned(data), Attempt)
    if attempt.cell >= cells:
        raise ValueError(f"cell: {attempt.cell} of {cells}, counted from 0")
    _check_moment("started", attempt.started, zone=True)
    measured = [sample.phase for sample in attempt.samples]
    for name in (*measured, *attempt.absent):
        if name not in phases:
            raise ValueError(f"the phase {_short(name)} is not in the plan")
    if len(set(measured)) < len(measured):
        raise ValueError("samples: two samples are of the same phase")
    for at, each in enumerate(attempt.samples):
        _check_sample(each, f"samples[{at}].")
    return attempt


def sample(data: Mapping[str, Any]) -> Sample:
    """Converts the JSON of a sample; fields of a later schema are ignored. Raises ValueError."""
    sample: Sample = typed(data, Sample)
    _check_sample(sample)
    return sample


def _check_sample(sample: Sample, where: str = "") -> None:
    """Raises ValueError for figures that contradict each other."""
    if sample.errors > sample.operations:
        raise ValueError(f"{where}errors: {sample.errors} of {sample.operations} operations")
    residency = sample.residency
    if residency is not None and (residency["resident_bytes"] or 0) > residency["file_bytes"]:
        raise ValueError(f"{where}residency: resident_bytes exceeds file_bytes")
    if sample.series:
        interval = sample.series[0]["interval_ns"]
        if max(point["from_ns"] for point in sample.series) // interval >= MOST_POINTS:
            raise ValueError(f"{where}series: more than {MOST_POINTS} intervals")


def _check_moment(where: str, text: str, zone: bool) -> None:
    """Raises ValueError if the text is not a date and time, or lacks a required time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR or (zone and moment.tzinfo is None):
        raise ValueError(f"{where}: expected a date and a time by ISO 8601{', with its zone' * zone}")


def _short(value: object) -> str:
    return sanitize(str(value), 80, "")


def typed(data: Any, kind: Any) -> Any:
    """Converts JSON to a declared type; undeclared keys are ignored. Raises ValueError, which names the place and the
    problem."""
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            # The only problem may be a text that is too long, so try again with texts cut.
            return msgspec.convert(cleaned(data), kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = where.removesuffix("`").removeprefix(".")
        raise ValueError(f"{place}{place and ': '}{what[0].lower()}{what[1:]}") from None
