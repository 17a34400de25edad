"""A directory of files as an object store: what the file system does for an object, without server and HTTP.

An object is a file; it is written beside its place and moved there, so that nobody sees half of one. A name is its
path, its segments quoted as in an address.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter_ns as now
from urllib.parse import quote, unquote

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.s3.pool import Pool
from dyno.host import tree
from dyno.suites.objectstore.port import NoObject, StoreRequest, StoreResponse

FOLDER, FILE = "%d", "%f"
"""Which end the name of a directory and of a file, and no quoted one."""
PIECE_BYTES = 1 << 20
FSYNC = "fsync"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # Written to a file that has its name: with the kernel.
    Tier.PROCESS: {FSYNC: False},
    # The file before it has its name, and then the directory that the name is in.
    Tier.POWER: {FSYNC: True},
}


class Directory:
    """See `dyno.contracts.engine.Engine`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._tier = tier or Tier.PROCESS
        self.fsync = self._tier is Tier.POWER
        self.root, self.beside = home / "objects", home / "beside"
        for each in (self.root, self.beside):
            each.mkdir(exist_ok=True)

    def close(self) -> None:
        pass

    def version(self) -> str:
        return f"{os.uname().sysname} {os.uname().release}"

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[self._tier], "transport": "none"}

    def files(self) -> Iterable[Path]:
        return tree.files(self.root)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-server", "is files in a directory: no request goes anywhere, and nobody is asked for keys")


class Objects:
    """See `dyno.suites.objectstore.port.Bucket`."""

    def __init__(self, engine: Directory, large: bool, patience: float) -> None:
        from dyno.suites.objectstore.dataset import DIGEST

        self._engine, self._large, self._digest = engine, large, DIGEST
        self._verbs = {
            "put": self._put,
            "get": self._get,
            "head": lambda ask: StoreResponse(self._path(ask.key).stat().st_size),
            "list": self._list,
            "copy": self._copy,
            "delete": self._delete,
            "open": self._open,
            "part": self._part,
            "join": self._join,
            "drop": self._drop,
        }

    def asking(self, places: int, fresh: bool) -> Pool:
        return Pool(self._do, places)

    def _do(self, ask: StoreRequest) -> StoreResponse:
        try:
            return self._verbs[ask.verb](ask)
        except FileNotFoundError:
            raise NoObject(ask.key) from None

    def _path(self, key: str) -> Path:
        return self._engine.root / _quoted(key)

    def _new(self) -> Path:
        return self._engine.beside / os.urandom(8).hex()

    def _place(self, made: Path, key: str) -> None:
        """What was made becomes the object."""
        path = self._path(key)
        if self._engine.fsync:
            _flush(made)
        try:
            made.replace(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.replace(path)
            if self._engine.fsync:
                # Of new directories, the names are in those above.
                for above in path.parent.relative_to(self._engine.root.parent).parents:
                    _flush(self._engine.root.parent / above)
        if self._engine.fsync:
            _flush(path.parent)

    def _put(self, ask: StoreRequest) -> StoreResponse:
        made = self._new()
        made.write_bytes(ask.body)
        self._place(made, ask.key)
        return StoreResponse()

    def _get(self, ask: StoreRequest) -> StoreResponse:
        start = now()
        with self._path(ask.key).open("rb", buffering=0) as file:
            left = ask.end - ask.start if ask.start is not None else os.fstat(file.fileno()).st_size
            file.seek(ask.start or 0)
            if not self._large:
                body = file.read(left)
                end = now() - start
                return StoreResponse(len(body), None, body, end, end)
            digest, size, first = self._digest(), 0, 0
            while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
                first = first or now() - start
                digest.update(piece)
                size, left = size + len(piece), left - len(piece)
        total = now() - start
        return StoreResponse(size, digest.digest(), None, first or total, total)

    def _list(self, ask: StoreRequest) -> StoreResponse:
        found = sorted(self._below(ask.key), key=str.encode)
        names = [key for key in found if key > ask.other][: ask.number]
        return StoreResponse(names=lambda: names)

    def _below(self, prefix: str) -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        for at, _, files in os.walk(self._path(f"{folder}/x" if folder else "x").parent):
            above = [unquote(part[: -len(FOLDER)]) for part in Path(at).relative_to(self._engine.root).parts]
            for name in files:
                key = "/".join([*above, unquote(name[: -len(FILE)])])
                if key.startswith(prefix):
                    yield key

    def _copy(self, ask: StoreRequest) -> StoreResponse:
        made = self._new()
        shutil.copyfile(self._path(ask.other), made)
        self._place(made, ask.key)
        return StoreResponse()

    def _delete(self, ask: StoreRequest) -> StoreResponse:
        path = self._path(ask.key)
        path.unlink(missing_ok=True)
        if self._engine.fsync and path.parent.exists():
            _flush(path.parent)
        return StoreResponse()

    def _open(self, ask: StoreRequest) -> StoreResponse:
        made = self._new()
        made.mkdir()
        return StoreResponse(tag=made.name)

    def _part(self, ask: StoreRequest) -> StoreResponse:
        (self._engine.beside / ask.upload / str(ask.number)).write_bytes(ask.body)
        return StoreResponse(tag=str(ask.number))

    def _join(self, ask: StoreRequest) -> StoreResponse:
        made, parts = self._new(), self._engine.beside / ask.upload
        with made.open("wb") as whole:
            for tag in ask.tags:
                with (parts / tag).open("rb") as part:
                    shutil.copyfileobj(part, whole, PIECE_BYTES)
        self._place(made, ask.key)
        shutil.rmtree(parts)
        return StoreResponse()

    def _drop(self, ask: StoreRequest) -> StoreResponse:
        shutil.rmtree(self._engine.beside / ask.upload)
        return StoreResponse()

    def close(self) -> None:
        pass


def _quoted(key: str) -> str:
    *folders, name = (quote(part, safe=" ") for part in key.split("/"))
    return "/".join([*(f"{folder}{FOLDER}" for folder in folders), f"{name}{FILE}"])


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


ENGINE = EngineSpec(
    name="directory",
    title="A directory of files, without a server: what object stores over files stand on",
    opener=Directory,
    ports={"bucket": PortSpec(Objects)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
    clients="one",
)
