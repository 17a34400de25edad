"""A test engine, not a real one, that tells the address that it is given wherever an engine may tell something, as
client libraries do: as it stands, decoded, encoded again, in quotes, and in pieces.

It is the memory engine. `where` says when it tells: in what it says of itself, by an error of an operation, or by one
that ends its trial. It tells the names of its environment variables too. Nothing here may be of use to a measurement.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from dyno.contracts.engine import PortSpec
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.ordered_kv import KVReader
from dyno.contracts.settings import Setting, choice
from dyno.engines import memory
from dyno.servers import user_server


def told(address: str) -> str:
    """All that may be told of an address, in one line; its scheme and host too."""
    parts = urlsplit(address)
    plain = unquote(parts.password or "")
    pieces = [piece for piece in re.split(r"\W+", plain) if len(piece) > 3]
    given = [f"{value!r} {value}" for _, value in parse_qsl(parts.query)]
    words = [address, unquote(address), repr(plain), repr(plain.encode()), quote(plain), quote(plain, safe="")]
    return " | ".join([*words, *pieces, *given, parts.fragment])


class Indiscreet(memory.Memory):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.where, self.told = options["where"], told(str(options["url"]))
        print(self.told)
        print(self.told, file=sys.stderr)
        self.reads = 0
        if "conformance" in home.parts:
            self.where = "itself"
        if self.where == "refusal":
            raise Refused(f"can't connect to {self.told}")
        if self.where == "error":
            raise RuntimeError(self.told)

    def version(self) -> str:
        return self.told

    def settings(self) -> Mapping[str, Value | None]:
        return {"address": self.told, "environment": " ".join(os.environ)}

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("told", self.told)


class Keys(memory.Keys):
    def __init__(self, engine: Indiscreet) -> None:
        super().__init__(engine)
        self._engine = engine

    def reading(self) -> AbstractContextManager[Reads]:  # type: ignore[override]
        return nullcontext(Reads(self._engine))


class Reads(KVReader):
    def __init__(self, engine: Indiscreet) -> None:
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        self._engine.reads += 1
        if self._engine.where == "operation" and self._engine.reads % 10 == 0:
            raise OSError(self._engine.told)
        value: bytes | None = self._engine.store.get(key)
        return value

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((found, self._engine.store[found]) for found in self._engine.store.irange(key))


ENGINE = replace(
    memory.ENGINE,
    name="indiscreet",
    title="Test engine: tells all it knows",
    opener=Indiscreet,
    ports={"ordered-kv": PortSpec(Keys)},
    options=(
        user_server.setting("indiscreet"),
        Setting("where", choice("itself", "operation", "error", "refusal"), "itself", "where it tells"),
    ),
    by_default=False,
)
