"""The record of a function's answers: a digest for each argument, and the first answers in words. It is compared with
those of the other functions, trial by trial."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from dyno.contracts.equality import same, shorten
from dyno.contracts.model import Fact, Wrong
from dyno.contracts.suite import Failure
from dyno.contracts.value_types import JsonMapping
from dyno.suites.calls.answers import BYTES, digest

SHOWN = 1_000
"""Number of the first arguments whose answers are kept in words."""
KEPT, KEPT_LENGTH = 10_000, 100
"""Small plain answers are kept up to this argument, and texts up to this length: comparing them is many times faster
than computing digests."""
_SMALL = frozenset({int, float, bool, type(None)})
_NOTHING = object()
_UNKNOWN = bytes(BYTES)
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80
REMEDY = "if that is right, decide by the parameter check"


def brief(value: Any) -> str:
    """Formats a value for a message, without formatting all of a large one."""
    if type(value) in (str, bytes):
        return shorten(value[:KEPT_LENGTH])
    return shorten(_Text(_BRIEF.repr(value)))


class _Text(str):
    """A text that is its own `repr`."""

    __slots__ = ()
    __repr__ = str.__str__


class CallRecord:
    """The answers to `arguments` arguments."""

    def __init__(self, arguments: int) -> None:
        self._digests = bytearray(arguments * BYTES)
        self._kept: dict[int, object] = {}
        self.shown: dict[int, str] = {}
        self.unchecked = False
        """Whether there was an answer that can't be compared."""

    def add(self, positions: Sequence[int], arguments: Sequence[object], answers: Sequence[object]) -> int:
        """Adds answers. Returns the number of compared ones. Raises Wrong if an argument had another answer
        before."""
        compared = 0
        for at, argument, answer in zip(positions, arguments, answers, strict=False):
            if type(answer) is Failure:
                continue
            if same(answer, self._kept.get(at, _NOTHING)):
                compared += 1
                continue
            digested = digest(answer)
            if digested is None:
                self.unchecked = True
                continue
            compared += 1
            place = slice(at * BYTES, (at + 1) * BYTES)
            if self._digests[place] == _UNKNOWN:
                self._digests[place] = digested
                self._keep(at, answer)
            elif self._digests[place] != digested:
                before = self.shown.get(at, "something else")
                raise Wrong(
                    f"not deterministic: argument {at + 1:,} ({brief(argument)}) was answered {before}, and then"
                    f" {brief(answer)}; {REMEDY}"
                )
        return compared

    def _keep(self, at: int, answer: Any) -> None:
        if at < SHOWN:
            self.shown[at] = brief(answer)
        kind = type(answer)
        if at < KEPT and (kind in _SMALL or (kind in (str, bytes) and len(answer) <= KEPT_LENGTH)):
            self._kept[at] = answer

    def to_json(self) -> dict[str, object]:
        return {"digests": self._digests.hex(), "shown": list(self.shown.items()), "unchecked": self.unchecked}

    @classmethod
    def of_json(cls, data: JsonMapping) -> CallRecord:
        record = cls(0)
        record._digests, record.shown = bytearray.fromhex(data["digests"]), dict(data["shown"])
        record.unchecked = data["unchecked"]
        return record

    @classmethod
    def merge_records(cls, records: Iterable[CallRecord]) -> CallRecord:
        """Returns the record of all clients. Raises Wrong if two of them disagree."""
        whole, *others = records
        for other in others:
            if (at := whole.difference(other)) is not None:
                raise Wrong(
                    f"not deterministic: argument {at + 1:,} was answered {whole.shown.get(at)} to one client, and"
                    f" {other.shown.get(at)} to another; {REMEDY}"
                )
            pairs = zip(whole.digests(), other.digests(), strict=True)
            whole._digests = bytearray(b"".join(mine if any(mine) else theirs for mine, theirs in pairs))
            whole.shown = {**other.shown, **whole.shown}
            whole.unchecked |= other.unchecked
        return whole

    def digests(self) -> list[bytes]:
        return [bytes(self._digests[at : at + BYTES]) for at in range(0, len(self._digests), BYTES)]

    def difference(self, other: CallRecord) -> int | None:
        """Returns the position of the first argument that both know and that was answered otherwise."""
        if self._digests == other._digests:
            return None
        for at, mine, theirs in zip(count(), self.digests(), other.digests(), strict=False):
            if mine != theirs and _UNKNOWN not in (mine, theirs):
                return at
        return None

    def chain(self) -> str:
        """Returns the digests of the answers to the first 1, 2, 4, ... arguments and to all: links 'arguments:digest'
        with blanks. An argument without an answer ends the chain."""
        digests = self.digests()
        known = next((at for at, each in enumerate(digests) if each == _UNKNOWN), len(digests))
        ends = [1 << power for power in range(known.bit_length()) if 1 << power < known] + [known] * (known > 0)
        hashed = blake2b(digest_size=8)
        links = []
        before = 0
        for end in ends:
            hashed.update(self._digests[before * BYTES : end * BYTES])
            links.append(f"{end}:{hashed.hexdigest()}")
            before = end
        return " ".join(links)


def facts(record: CallRecord, home: Path | None, name: str, arguments: Sequence[object]) -> Mapping[str, Fact]:
    """Returns the facts by which `stats.agreement` compares functions. `home` is where the run's first record is
    kept, from which the first difference is described."""
    if record.unchecked:
        return {"answers_unchecked": True}
    if not (links := record.chain()):
        return {}
    # Every trial has a book of its own, so that the chains are compared.
    found: dict[str, Fact] = {"answers_book": uuid4().hex, "answers_chain": links, "answers_remedy": REMEDY}
    if home is None:
        return found
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        home.write_text(json.dumps({"name": name, **record.to_json()}))
        return found
    data = json.loads(home.read_text())
    first = CallRecord.of_json(data)
    if (at := record.difference(first)) is not None:
        mine, theirs = record.shown.get(at), first.shown.get(at)
        given = "the call"
        if arguments:
            given = f"argument {at + 1:,} ({brief(arguments[at])})"
        other = "in another trial"
        if data["name"] != name:
            other = data["name"]
        said = f"{name} answered {mine}, and {other} {theirs}"
        found["answers_differ"] = f"{given}: {said if mine != theirs else f'{name} answered otherwise than {other}'}"
    return found
