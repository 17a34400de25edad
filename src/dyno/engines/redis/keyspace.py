"""The engine that Redis and Valkey are: keys of one prefix on a server that speaks RESP, at the tiers of its log.

What a suite keeps under those keys may not be put here.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.engine import EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value, strongest
from dyno.contracts.settings import Setting, choice
from dyno.engines.redis.resp import CLIENTS, Client, connect, encrypted, library
from dyno.engines.redis.server_redis import OURS, Program, Redis
from dyno.host.installation import version
from dyno.servers import namespace, program_option, set_option, user_server
from dyno.servers.user_server import URL, UserServer

TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"appendonly": "no"},
    # What a round of its event loop changed is written to the log before any of it is answered: by write(2), so that
    # the kernel has it, which flushes it when it likes.
    Tier.PROCESS: {"appendonly": "yes", "appendfsync": "no"},
    # The same, and fdatasync(2) after the write: one flush for all that came in the same round.
    Tier.POWER: {"appendonly": "yes", "appendfsync": "always"},
}
# With everysec, a write waits in the server's memory while a flush is under way, for up to 2 s.
ENOUGH: Mapping[Tier, Mapping[str, tuple[str, ...]]] = {
    Tier.VOLATILE: {},
    Tier.PROCESS: {"appendonly": ("yes",), "appendfsync": ("no", "always")},
    Tier.POWER: {"appendonly": ("yes",), "appendfsync": ("always",), "no-appendfsync-on-rewrite": ("no",)},
}
SHOWN = (
    "appendonly",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "save",
    "maxmemory",
    "maxmemory-policy",
    "io-threads",
)
STORES = "dyno_stores"
"""A set, on a user's own server, of the names of the stores that are there."""
SHORT = 8
"""How much of its name a store needs on a server of Dyno's own: what of it was drawn at random."""
BATCH, REWRITE_SECONDS = 1_000, 60.0
PORT = 6_379


class Keyspace:
    """The keys of one store; every client has a connection of its own."""

    def __init__(
        self,
        engine: str,
        home: Path,
        tier: Tier,
        options: Mapping[str, Value],
        server: Any,
    ) -> None:
        self._engine, self._tier, self._server, self.options = engine, tier, server, options
        self.prefix = _prefix(home, server)
        self._client = library(server)
        try:
            if not server.own:
                self._prepare(namespace.of(home))
        except BaseException:
            self.close()
            raise

    def _prepare(self, name: str) -> None:
        from redis import RedisError
        from redis.exceptions import NoPermissionError

        try:
            self._refuse()
            for gone in namespace.abandoned([found.decode() for found in self._client.smembers(STORES)]):
                _drop(self._client, gone)
            self._client.sadd(STORES, name)
        except NoPermissionError:
            raise
        except RedisError as error:
            raise Refused(f"the server refused: {error}") from None

    def _refuse(self) -> None:
        """A user's own server is left as it is set: what it must at least give is looked at."""
        if self._client.info("cluster").get("cluster_enabled"):
            raise Refused("the server is a node of a cluster; Dyno measures single servers")
        for name, enough in ENOUGH[self._tier].items():
            found = self._config(name)
            if found is None:
                raise Refused(
                    f"the server does not tell its {name}, so that tier {self._tier.value} can't be known: its user"
                    " needs the right to CONFIG GET (+config|get)"
                )
            if found not in enough:
                raise Refused(f"the server has {name}={found}, so that it can't give tier {self._tier.value}")

    def gives(self) -> Tier:
        """Settings that the server does not tell give nothing."""
        found = {name: self._config(name) for name in ENOUGH[Tier.POWER]}
        return strongest(t for t in Tier if all(found[name] in enough for name, enough in ENOUGH[t].items()))

    def _config(self, name: str) -> str | None:
        """A setting; None where the server has none of that name, or does not let everybody read it."""
        from redis import ResponseError

        try:
            found = self._client.config_get(name).get(name)
        except ResponseError:
            return None
        return None if found is None else str(found)

    def rewrite(self) -> None:
        """Of its log, as the server does it by itself once that has grown; nothing where there is none."""
        _rewrite(self._client)

    def connect(self) -> Client:
        return connect(self._server, str(self.options["client"]))

    def close(self) -> None:
        self._client.close()

    def _product(self) -> tuple[str, str]:
        """Name and version of the server that answers."""
        info = self._client.info("server")
        valkey = info.get("valkey_version")
        return ("Valkey", valkey) if valkey else ("Redis", info["redis_version"])

    def version(self) -> str:
        server = " ".join(self._product())
        by = ("hiredis",) if self.options["client"] == "hiredis" else ("redis", "hiredis")
        named = {"redis": "redis-py"}
        return f"{server} ({', '.join(f'{named.get(name, name)} {version(name)}' for name in by)})"

    def settings(self) -> Mapping[str, Value | None]:
        names = dict.fromkeys((*SHOWN, *set_option.to_read(self.options)))
        told: dict[str, Value | None] = {name: self._config(name) for name in names}
        told["mem_allocator"] = self._client.info("memory").get("mem_allocator")
        # redis-py takes its parser where it is installed, which it is here.
        reached = user_server.transport(self._server, encrypted(self._server))
        return {**told, "client": self.options["client"], "parser": "hiredis", **reached}

    def files(self) -> Iterable[Path]:
        """Of its log: there are no others. At tier volatile there is none."""
        if self._server.own and self._tier is not Tier.VOLATILE:
            yield from self._server.log.iterdir()

    def caveats(self) -> Iterable[Caveat]:
        if self.options[set_option.SET]:
            yield set_option.CAVEAT
        if self._server.own and self._tier is not Tier.VOLATILE:
            yield Caveat("log-alone", "holds all data in memory: what it has on disk is its log")
        if not self._server.own:
            found = {name: self._config(name) for name in ENOUGH[Tier.POWER]}
            yield from user_server.caveats(encrypted(self._server), user_server.declared(self.gives(), found))
        product, _ = self._product()
        if product.lower() != self._engine:
            yield user_server.other_product(self._engine, product)


def _prefix(home: Path, server: Any) -> bytes:
    name = namespace.of(home)
    return f"{name[-SHORT:] if server.own else name}:".encode()


def _drop(client: Any, name: str) -> None:
    """Takes a store off a user's own server."""
    _unlink(client, f"{name}:".encode())
    client.srem(STORES, name)


def _unlink(client: Any, prefix: bytes) -> None:
    cursor = None
    while cursor != 0:
        cursor, keys = client.scan(cursor or 0, match=prefix + b"*", count=BATCH)
        if keys:
            client.unlink(*keys)


def missing_right(error: Exception) -> str | None:
    """See `dyno.contracts.engine.EngineSpec.missing_right`. redis-py has a class for it, hiredis the server's
    word."""
    denied = type(error).__name__ == "NoPermissionError" or str(error).startswith("NOPERM")
    return str(error).removeprefix("NOPERM ") if denied else None


def removal(name: str, options: Mapping[str, Value]) -> str:
    """By redis-cli, which is also Valkey's. Its own `-u` can't log in with a password alone."""
    at = urlsplit(str(options[URL]))
    asked = dict(parse_qsl(at.query))
    where = ["-s", at.path] if at.scheme == "unix" else ["-h", at.hostname or "localhost", "-p", str(at.port or PORT)]
    database = asked.get("db") or (at.path.strip("/") if at.scheme != "unix" else "")
    more = [*(["-n", database] if database else []), *(["--user", unquote(at.username)] if at.username else [])]
    cli = shlex.join(["redis-cli", *where, *more, *(["--tls"] if at.scheme == "rediss" else [])])
    password = f"export REDISCLI_AUTH={shlex.quote(unquote(at.password))}; " if at.password else ""
    scan = f"{cli} --scan --pattern '{name}:*' | xargs -r -d '\\n' {cli} UNLINK"
    return f"{password}{scan}; {cli} SREM {STORES} {name}"


def remove(home: Path, options: Mapping[str, Value], server: Any) -> None:
    with library(server) as client:
        if server.own:
            _unlink(client, _prefix(home, server))
            _rewrite(client)
        else:
            _drop(client, namespace.of(home))


def _rewrite(client: Any) -> None:
    """Begins the log anew: else the size of the next store's would be that of all stores before it, too."""
    if not client.info("persistence")["aof_enabled"]:
        return
    client.bgrewriteaof()
    deadline = time.monotonic() + REWRITE_SECONDS
    while _rewriting(client.info("persistence")) and time.monotonic() < deadline:
        time.sleep(0.005)


def _rewriting(told: Mapping[str, Any]) -> bool:
    return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])


def declared(
    name: str,
    title: str,
    program: Program,
    packages: tuple[str, ...],
    ports: Mapping[str, PortSpec],
    requires: tuple[str, ...] = (),
) -> EngineSpec:
    """The declaration of an engine whose server is that program, with the packages and the requirements
    that bring it."""

    def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
        if options[URL]:
            return UserServer(str(options[URL]))
        settings = {setting: str(value) for setting, value in TIERS[tier].items()}
        return Redis(program, home, {**settings, **set_option.given(options)}, program_option.given(options))

    return EngineSpec(
        name=name,
        title=title,
        opener=partial(Keyspace, name),
        ports=ports,
        tiers=TIERS,
        default_tier=Tier.PROCESS,
        seldom=Maintenance("log written anew", Keyspace.rewrite),
        modules=("redis", "hiredis"),
        requires=("redis[hiredis]>=6", "hiredis>=3", *requires),
        packages=packages,
        options=(
            user_server.setting(*dict.fromkeys((name, "redis", "rediss", "unix"))),
            Setting("client", choice(*CLIENTS), CLIENTS[0], CLIENT_HELP),
            Setting("many", choice("list", "pipeline"), "list", "a batch: one MGET, or GETs sent together"),
            set_option.setting("settings", (*ENOUGH[Tier.POWER], *OURS)),
            program.kind.setting,
        ),
        refuse=_refused,
        server=serve,
        gives=Keyspace.gives,
        remove=remove,
        removal=removal,
        missing_right=missing_right,
        needs=lambda options: None if options[URL] else program.missing(program_option.given(options)),
        clients="processes",
        in_memory=True,
        by_default=False,
    )


CLIENT_HELP = "single: redis-py on one connection, without its pool; hiredis: a plain socket and hiredis alone"


def _refused(tier: Tier, options: Mapping[str, Value]) -> str | None:
    if options["client"] == "hiredis" and str(options[URL]).startswith("rediss://"):
        return "client=hiredis does not encrypt, which rediss:// asks for: take client=redis-py"
    return set_option.refused(tier, options)
