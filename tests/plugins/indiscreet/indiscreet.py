"""A test engine that, like some client libraries, reveals its server's address wherever an engine may print
something: unchanged, decoded, and in quotes.

It is the memory engine. The option `where` selects where it reveals the address: in its description, in the error of
an operation, or in the error that ends its trial. It reveals the names of its environment variables too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.engine import Listing, PortSpec
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.engines import memory
from dyno.servers import user_server
from dyno.suites._shared.ordered_kv import KVReader


def told(address: str) -> str:
    """An address and its secrets in one line, including scheme and host."""
    parts = urlsplit(address)
    plain = unquote(parts.password or "")
    given = [f"{value!r} {value}" for _, value in parse_qsl(parts.query)]
    return " | ".join([address, unquote(address), repr(plain), repr(plain.encode()), *given, parts.fragment])


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
    listing=Listing(by_default=False),
)
