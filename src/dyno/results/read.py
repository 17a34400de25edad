"""Reads a run file and checks it: each line has its checksum, loaded values have the declared types, are within their
limits, and fit together, and histograms can be decoded.

Lines are strict JSON: no duplicate keys, no NaN or infinity, limited sizes. msgspec decodes a line. If Dyno wrote the
line, it encodes to the same bytes again. If it doesn't, the line may have duplicate keys, of which msgspec keeps only
one. Then Python's slower decoder checks each key.
"""

import gc
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from dyno.contracts.cell import Cell
from dyno.contracts.limits import STAGES, parse_all
from dyno.contracts.model import UsageError
from dyno.contracts.profile import ProfiledTrial, check_profile
from dyno.contracts.safe_read import MIB, open_regular_file
from dyno.contracts.sanitize import MOST, sanitize
from dyno.contracts.value_types import MOST_HISTOGRAM, MOST_POINTS, MOST_TEXT, JsonMapping, JsonObject
from dyno.fields import HISTOGRAMS, Sample
from dyno.results.header import FirstLine, drop_unknown_facts, select_declared
from dyno.results.run import Attempt, End, Extension, Run, apply_server_tiers, set_labels

OPENING = b'{"kind":"run"'
"""First bytes of a run file that Dyno wrote."""
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"kind"\s*:\s*"run"')
_BEGINNING_BYTES = 1 << 16
MOST_BYTES, MOST_LINE = 2048 * MIB, 64 * MIB
"""Maximum size of a run file, and of one of its lines."""
CHECKSUM = "crc32"
"""The last key of each line: CRC-32 of the bytes before it, in hexadecimal. Files of 0.1.0 lack it."""
_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\r?\Z')
_CHECKSUM_BYTES = 24
KEPT = {**dict.fromkeys(("why", "output", "first_error", "void", "absent"), "\n\t"), "definition": "\n\t\r"}
"""Line breaks and tabs that texts may have, by key. A definition has whole scripts."""
_WITH_NAMES = HISTOGRAMS | {"absent", "definition"}
"""Keys of tables by name. The texts in them are treated as texts of the table's own key."""
DIGITS = 20
"""Maximum number of digits of a whole number, enough for 64 bits."""

SCHEMA, SEARCH_SCHEMA = 3, 4
"""The schema of most runs, and of those that search capacities: earlier versions would take probes for trials."""
READABLE = (SCHEMA, SEARCH_SCHEMA)
T = TypeVar("T")
# Dates in these years are valid in every time zone.
FIRST_YEAR, LAST_YEAR = 1900, 9900

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def is_run_file(path: Path) -> bool:
    """Returns whether a regular file begins like a run file, with any white space and order of keys. Raises
    OSError."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if _BEGINNING.match(file.read(_BEGINNING_BYTES)):
            return True
        file.seek(0)
        line = file.readline(MOST_LINE)
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        first = parse_line(line)
    except ValueError:
        return False
    return isinstance(first, dict) and first.get("kind") == "run"


def lines(path: Path) -> Iterator[bytes]:
    """Yields each complete line without its line break, and skips an incomplete last line. Raises UsageError."""
    with open_regular_file(path, MOST_BYTES) as file:
        number = 1
        while (line := file.readline(MOST_LINE)).endswith(b"\n"):
            yield line[:-1]
            number += 1
        if len(line) == MOST_LINE:
            raise damaged_file_error(path, f"longer than {MOST_LINE // MIB} MiB", number)


def with_checksum(line: bytes) -> bytes:
    """Adds the checksum to a line, which is an object in JSON without one."""
    content = line[:-1]
    return content + b',"%s":"%08x"}' % (CHECKSUM.encode(), zlib.crc32(content))


def _verify(line: bytes, required: bool = False) -> bool:
    """Returns whether a line has a checksum. Raises ValueError if its content has another one, or if it has none
    although it is required."""
    end = _CHECKSUM.search(line, max(len(line) - _CHECKSUM_BYTES, 0))
    if end is None:
        if required:
            raise ValueError("it has no checksum, but the first line has one")
        return False
    if zlib.crc32(memoryview(line)[: end.start()]) != int(end[1], 16):
        raise ValueError("its content was changed: it does not have its checksum")
    return True


def damaged_file_error(path: Path, why: object, line: int | None = None) -> UsageError:
    """Returns the error for a file with invalid content."""
    where = "" if line is None else f" in line {line}"
    return UsageError(f"{path} is damaged{where}: {why}")


def parse_line(line: bytes) -> Any:
    """Parses the JSON of a line, and sanitizes its texts. Raises ValueError."""
    try:
        data = None
        # msgspec also refuses lone surrogates, which older versions of Dyno wrote.
        with suppress(msgspec.DecodeError, ValueError):
            data = _decode(line)
        if data is None or _encode(data) != line:
            data = json.loads(
                line.decode(),
                object_pairs_hook=_object,
                parse_int=_integer,
                parse_float=_finite,
                parse_constant=_finite,
            )
        plain = line.isascii() and b"\\" not in line and b"\x7f" not in line
        if plain:
            return data
        return sanitize_texts(data)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON from character {error.pos} on") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 from byte {error.start} on") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {json.dumps(sanitize(duplicate, most=80))} is there twice")
    return data


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:DIGITS]} is not a number of JSON")
    return number


def sanitize_texts(data: object, name: str = "") -> object:
    """Returns the data with all texts, keys included, sanitized and cut to the maximum length."""
    if isinstance(data, str):
        if name in HISTOGRAMS:
            return sanitize(data, MOST_HISTOGRAM + 1)
        return _fit(data, KEPT.get(name, ""))
    if isinstance(data, list):
        return [sanitize_texts(value, name) for value in data]
    if isinstance(data, dict):
        return {_fit(key): sanitize_texts(value, name if name in _WITH_NAMES else key) for key, value in data.items()}
    return data


def _fit(text: str, keep: str = "") -> str:
    # A text that was already cut when the worker reported it ends with a mark, so it may be longer by the mark.
    return sanitize(text, MOST if len(text) > MOST_TEXT else MOST_TEXT, keep)


def load(path: Path) -> Run:
    """Reads a run file. For any other file, raises UsageError with a one-line message."""
    # Loading creates no garbage, but each collection would traverse all trials again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _load_run(path)
    finally:
        if collecting:
            gc.enable()


def _load_run(path: Path) -> Run:
    remaining = lines(path)
    first = next(remaining, b"")
    recorded, cells = parse_first_line(path, first)
    has_checksums = _verify(first)
    attempts = []
    profiled = []
    phases = frozenset(recorded["plan"]["phases"])
    ending = None
    for number, line in enumerate(remaining, 2):
        try:
            _verify(line, has_checksums)
            data = parse_line(line)
            if not isinstance(data, dict):
                raise ValueError("not an object")
            if data.get("kind") == "profile":
                profiled.append(profiled_trial(data, len(cells), phases))
                continue
            # If further lines follow an `end` line, the run was resumed.
            if data.get("kind") == "end":
                ending = convert_to_type(data, End).why
            else:
                ending = None
            if data.get("kind") == "extension":
                recorded["plan"]["samples"] = convert_to_type(data, Extension).samples
            if data.get("kind") == "trial":
                attempts.append(attempt(data, len(cells), phases))
        except ValueError as error:
            raise damaged_file_error(path, error, number) from None
    apply_server_tiers(cells, attempts)
    set_labels(cells, attempts)
    return Run(path, recorded, cells, tuple(attempts), ending, tuple(profiled))


def planned_cells(path: Path) -> tuple[Cell, ...]:
    """Returns the planned cells, without the tiers that trials read from servers. Raises UsageError."""
    return parse_first_line(path, next(lines(path), b""))[1]


def parse_first_line(path: Path, line: bytes) -> tuple[JsonObject, tuple[Cell, ...]]:
    """Parses the file's first line; returns it without the cells, as `Run.recorded`, and the cells. Raises
    UsageError."""
    try:
        _verify(line)
        data = parse_line(line)
    except ValueError as error:
        if line.startswith(b'{"kind"'):
            raise damaged_file_error(path, error, 1) from None
        data = None
    if not isinstance(data, dict) or data.get("kind") != "run":
        raise UsageError(f"{path} is not a run file of dyno")
    if data.get("schema") not in READABLE:
        raise UsageError(
            f"{path} has schema {_short(data.get('schema'))}; this dyno reads {SCHEMA} and {SEARCH_SCHEMA}"
        )
    try:
        return parse_header(data)
    except ValueError as error:
        raise damaged_file_error(path, error, 1) from None


def parse_header(data: JsonMapping) -> tuple[JsonObject, tuple[Cell, ...]]:
    """Checks the first line's JSON; returns it without the cells, as `Run.recorded`, and the cells. Raises
    ValueError."""
    # The decoder does not limit the texts of declarations: suites make them too, without importing msgspec.
    data = {
        **data,
        **{name: sanitize_texts(data[name], name) for name in ("phases", "layout", "charts") if name in data},
    }
    first: FirstLine = convert_to_type(drop_unknown_facts(data), FirstLine)
    plan = first.plan
    cells = first.cells
    if len(set(plan.phases)) < len(plan.phases):
        raise ValueError("plan.phases: a phase is listed twice")
    for at, cell in enumerate(cells):
        if cell.params.keys() != cells[0].params.keys():
            raise ValueError(f"cells[{at}].params: not the parameters of the first cell")
        clients, rate = cell.params.get("clients", 1), cell.params.get("rate", "max")
        if type(clients) is not int or clients < 1:
            raise ValueError(f"cells[{at}].params.clients: expected a number of clients")
        if rate != "max" and not (type(rate) in (int, float) and float(rate) > 0):
            raise ValueError(f"cells[{at}].params.rate: expected operations a second, or max")
    if plan.limit:
        parse_all(plan.limit)
    if first.created is not None:
        _check_moment("created", first.created)
    header = {name: value for name, value in data.items() if name != "cells"}
    recorded = select_declared(header, structs.replace(first, cells=()))
    # Files of earlier versions lack the key: those versions let cores sleep.
    recorded["plan"].setdefault("awake", False)
    return recorded, cells


def attempt(data: Mapping[str, object], cells: int, phases: Collection[str]) -> Attempt:
    """Converts the JSON of an attempt, in a run of `cells` cells with these phases. Raises ValueError."""
    attempt: Attempt = convert_to_type(data, Attempt)
    if any(len(text) > MOST_TEXT for caveat in attempt.caveats for text in (caveat.code, caveat.text)):
        # The decoder does not limit the texts of caveats: engines declare them too, without importing msgspec.
        attempt = convert_to_type(sanitize_texts(data), Attempt)
    if attempt.cell >= cells:
        raise ValueError(f"cell: {attempt.cell} of {cells}, counted from 0")
    _check_moment("started", attempt.started)
    measured = [sample.phase for sample in attempt.samples]
    for name in (*measured, *attempt.absent):
        if name not in phases:
            raise ValueError(f"the phase {_short(name)} is not in the plan")
    if len(set(measured)) < len(measured):
        raise ValueError("samples: two samples are of the same phase")
    if attempt.stage is not None and (attempt.stage not in STAGES or not attempt.rate):
        raise ValueError("stage: expected a stage of a search, with its rate")
    for at, each in enumerate(attempt.samples):
        check_sample(each, f"samples[{at}].")
    return attempt


def profiled_trial(data: Mapping[str, object], cells: int, phases: Collection[str]) -> ProfiledTrial:
    """Converts the JSON of a profiled trial, in a run of `cells` cells with these phases. Raises ValueError."""
    profiled: ProfiledTrial = convert_to_type(data, ProfiledTrial)
    if profiled.cell >= cells:
        raise ValueError(f"cell: {profiled.cell} of {cells}, counted from 0")
    _check_moment("started", profiled.started)
    for each in profiled.phases:
        if each.phase not in phases:
            raise ValueError(f"the phase {_short(each.phase)} is not in the plan")
        check_profile(each)
    if len({each.phase for each in profiled.phases}) < len(profiled.phases):
        raise ValueError("phases: two profiles are of the same phase")
    return profiled


def sample(data: Mapping[str, object]) -> Sample:
    """Converts the JSON of a sample; fields of a later schema are ignored. Raises ValueError."""
    sample: Sample = convert_to_type(data, Sample)
    check_sample(sample)
    return sample


def check_sample(sample: Sample, where: str = "") -> None:
    """Raises ValueError for figures that contradict each other, and for histograms that can't be decoded."""
    _check_histograms(sample, where)
    if sample.errors > sample.operations:
        raise ValueError(f"{where}errors: {sample.errors} of {sample.operations} operations")
    if max(sample.broken.values(), default=0) > (sample.judged or 0):
        raise ValueError(f"{where}broken: more than the {sample.judged} operations that were judged")
    residency = sample.residency
    if residency is not None and (residency["resident_bytes"] or 0) > residency["file_bytes"]:
        raise ValueError(f"{where}residency: resident_bytes exceeds file_bytes")
    if sample.series:
        interval = sample.series[0]["interval_ns"]
        if max(point["from_ns"] for point in sample.series) // interval >= MOST_POINTS:
            raise ValueError(f"{where}series: more than {MOST_POINTS} intervals")


def _check_histograms(sample: Sample, where: str) -> None:
    # Import here: this module imports numpy, which `dyno list` doesn't need.
    from dyno.contracts import histogram

    values = [(name, getattr(sample, name)) for name in HISTOGRAMS]
    present = [(name, value) for name, value in values if value is not None and value != {}]
    by_name = [(name, value.values() if isinstance(value, Mapping) else (value,)) for name, value in present]
    try:
        # Together, which is faster.
        histogram.check(each for _, encoded in by_name for each in encoded)
    except ValueError:
        for name, encoded in by_name:
            try:
                histogram.check(encoded)
            except ValueError as error:
                raise ValueError(f"{where}{name}: {error}") from None
        raise


def _check_moment(where: str, text: str) -> None:
    """Raises ValueError if the text is not a date and time with its zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or not FIRST_YEAR <= moment.year <= LAST_YEAR or moment.tzinfo is None:
        raise ValueError(f"{where}: expected a date and a time by ISO 8601, with its zone")


def _short(value: object) -> str:
    return sanitize(str(value), 80, "")


def convert_to_type(data: object, kind: type[T]) -> T:
    """Converts JSON to a declared type; undeclared keys are ignored. Raises ValueError, which names the place and the
    problem."""
    try:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            # The only problem may be a text that is too long, so try again with texts cut.
            return msgspec.convert(sanitize_texts(data), kind)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = where.removesuffix("`").removeprefix(".")
        raise ValueError(f"{place}{place and ': '}{what[0].lower()}{what[1:]}") from None
