"""A directory of files as an object store. It shows the file system's share of the work, without a server and HTTP.

An object is a file. It is written in another directory and then renamed, so nobody sees a part of it. A key is the
path, with each segment quoted as in a URL.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter_ns as now
from urllib.parse import quote, unquote

from dyno.contracts.engine import Engine, EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Tier, Value
from dyno.engines.arraystores.flushing import fsync
from dyno.host import filesystem
from dyno.suites._shared.digest import new_digest
from dyno.suites.objectstore import Bucket, NoObject, StoreRequest, StoreResponse, ThreadedRequester

FOLDER, FILE = "%d", "%f"
"""Suffixes of the names of directories and files, which no quoted segment has."""
PIECE_BYTES = 1 << 20
FSYNC = "fsync"
TIERS: Mapping[Tier, Mapping[str, Value]] = {
    # An object's file is written and renamed, so the kernel has the content and the name.
    Tier.PROCESS: {FSYNC: False},
    # An object's file is flushed before it is renamed, and its directory afterwards.
    Tier.POWER: {FSYNC: True},
}


class Directory(Engine):
    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        self._tier = tier or Tier.PROCESS
        self.fsync = self._tier is Tier.POWER
        self.root, self.beside = home / "objects", home / "beside"
        for each in (self.root, self.beside):
            each.mkdir(exist_ok=True)

    def version(self) -> str:
        return f"{os.uname().sysname} {os.uname().release}"

    def settings(self) -> Mapping[str, Value | None]:
        return {**TIERS[self._tier], "transport": "none"}

    def files(self) -> Iterable[Path]:
        return filesystem.files(self.root)

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("no-server", "is files in a directory: no request is sent anywhere, and no keys are checked")


class Objects(Bucket):
    """See `dyno.suites.objectstore.Bucket`."""

    def __init__(self, engine: Directory, large: bool, patience: float) -> None:
        self._engine, self._large = engine, large

    def asking(self, places: int, fresh: bool, library: bool = False) -> ThreadedRequester:
        return ThreadedRequester(self._respond, places)

    def _respond(self, request: StoreRequest) -> StoreResponse:
        upload = self._engine.beside / request.upload
        try:
            match request.verb:
                case "put":
                    new = self._new_path()
                    new.write_bytes(request.body)
                    self._rename(new, request.key)
                case "get":
                    return self._get(request)
                case "head":
                    return StoreResponse(self._path(request.key).stat().st_size)
                case "list":
                    keys = sorted(self._keys_below(request.key), key=str.encode)
                    names = [key for key in keys if key > request.other][: request.number]
                    return StoreResponse(names=lambda: names)
                case "copy":
                    new = self._new_path()
                    shutil.copyfile(self._path(request.other), new)
                    self._rename(new, request.key)
                case "delete":
                    path = self._path(request.key)
                    path.unlink(missing_ok=True)
                    if self._engine.fsync and path.parent.exists():
                        fsync(path.parent)
                case "open":
                    new = self._new_path()
                    new.mkdir()
                    return StoreResponse(tag=new.name)
                case "part":
                    (upload / str(request.number)).write_bytes(request.body)
                    return StoreResponse(tag=str(request.number))
                case "join":
                    new = self._new_path()
                    with new.open("wb") as whole:
                        for tag in request.tags:
                            with (upload / tag).open("rb") as part:
                                shutil.copyfileobj(part, whole, PIECE_BYTES)
                    self._rename(new, request.key)
                    shutil.rmtree(upload)
                case "drop":
                    shutil.rmtree(upload)
        except FileNotFoundError:
            raise NoObject(request.key) from None
        return StoreResponse()

    def _path(self, key: str) -> Path:
        *folders, name = (quote(part, safe=" ") for part in key.split("/"))
        return self._engine.root.joinpath(*(f"{folder}{FOLDER}" for folder in folders), f"{name}{FILE}")

    def _new_path(self) -> Path:
        return self._engine.beside / os.urandom(8).hex()

    def _rename(self, new: Path, key: str) -> None:
        """Renames a written file, so that it becomes the object of that key."""
        path = self._path(key)
        if self._engine.fsync:
            fsync(new)
        try:
            new.replace(path)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            new.replace(path)
            if self._engine.fsync:
                # Flush the parents of new directories, which contain their names.
                for above in path.parent.relative_to(self._engine.root.parent).parents:
                    fsync(self._engine.root.parent / above)
        if self._engine.fsync:
            fsync(path.parent)

    def _get(self, request: StoreRequest) -> StoreResponse:
        start = now()
        with self._path(request.key).open("rb", buffering=0) as file:
            if request.start is not None:
                left = request.end - request.start
            else:
                left = os.fstat(file.fileno()).st_size
            file.seek(request.start or 0)
            if not self._large:
                body = file.read(left)
                end = now() - start
                return StoreResponse(len(body), None, body, end, end)
            digest = new_digest()
            size = 0
            first = 0
            while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
                first = first or now() - start
                digest.update(piece)
                size, left = size + len(piece), left - len(piece)
        total = now() - start
        return StoreResponse(size, digest.digest(), None, first or total, total)

    def _keys_below(self, prefix: str) -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        for at, _, files in os.walk(self._path(f"{folder}/x" if folder else "x").parent):
            above = [unquote(part[: -len(FOLDER)]) for part in Path(at).relative_to(self._engine.root).parts]
            for name in files:
                key = "/".join([*above, unquote(name[: -len(FILE)])])
                if key.startswith(prefix):
                    yield key


ENGINE = EngineSpec(
    name="directory",
    title="A directory of files, without a server: what object stores over files are built on",
    opener=Directory,
    ports={"bucket": PortSpec(Objects)},
    tiers=TIERS,
    default_tier=Tier.PROCESS,
)
