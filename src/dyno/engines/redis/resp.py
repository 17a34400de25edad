"""Clients of RESP, the protocol of Redis and Valkey: redis-py, and a thin client based on hiredis."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from dyno.contracts.native_load import NATIVE_CLIENT, Exchange
from dyno.servers import user_server

if TYPE_CHECKING:
    import redis

    from dyno.servers.listen import StoreServer

Argument = bytes | str | int
Command = tuple[Argument, ...]
ConnectionArguments = Mapping[str, Any]
"""Arguments with which redis-py connects."""

CLIENTS = ("redis-py", "single", "hiredis", NATIVE_CLIENT)
CHUNK_BYTES = 1 << 20
RECEIVE_BYTES = 1 << 16


def library(server: StoreServer[ConnectionArguments], single: bool = False) -> redis.Redis:
    """Returns redis-py's client for a server. Raises Refused if it can't connect."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    # By default redis-py retries commands, and has a timeout of 5 s, which a large transaction may exceed.
    arguments: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": None,
        "single_connection_client": single,
    }
    try:
        if server.own:
            client = redis.Redis(**server.address, **arguments)
        else:
            # `valkey:` is Valkey's own name for the scheme `redis:`.
            url = re.sub("^valkey:", "redis:", server.url)
            client = redis.Redis.from_url(url, **arguments)
        client.ping()
    except (redis.RedisError, OSError, ValueError, TypeError) as error:
        raise user_server.unreachable_error(server, error) from None
    return client


def uses_tls(server: StoreServer[ConnectionArguments]) -> bool:
    """Returns whether connections to the server use TLS, which only the URL's scheme decides."""
    if server.own:
        return bool(server.address.get("ssl"))
    return str(server.url).startswith("rediss:")


def connect(server: StoreServer[ConnectionArguments], how: str) -> Client:
    """Returns a new connection through one of CLIENTS."""
    connection = library(server, single=how == "single")
    if how in ("redis-py", "single"):
        return Client(connection)
    with connection:
        where = connection.connection_pool.connection_kwargs
        if how == NATIVE_CLIENT:
            return Native(where)
        return Thin(where)


class Client:
    """A client's connection through redis-py, either with its pool of connections or with a single connection. Server
    errors are raised, and nothing is retried."""

    def __init__(self, client: Any) -> None:
        self._client = client
        # Keep the raw answer, because SET has two kinds of answers.
        client.set_response_callback("SET", lambda answer, **_: answer)
        self.execute = client.execute_command

    def transaction(self, commands: Iterable[Command]) -> list[object]:
        """Sends MULTI, the commands and EXEC; returns the answers. If `commands` raises, nothing is executed."""
        return self._execute_together(commands, transaction=True)

    def pipeline(self, commands: Sequence[Command]) -> list[object]:
        """Sends the commands together, without a transaction; returns the answers in order."""
        return self._execute_together(commands, transaction=False)

    def _execute_together(self, commands: Iterable[Command], transaction: bool) -> list[object]:
        with self._client.pipeline(transaction=transaction) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute())

    def close(self) -> None:
        self._client.close()


class Thin(Client):
    """A connection through hiredis on a plain socket, without redis-py's pool, state and metrics."""

    def __init__(self, where: ConnectionArguments) -> None:
        import hiredis

        self._pack: Callable[[Command], bytes] = hiredis.pack_command  # type: ignore[assignment]
        self._error = hiredis.ReplyError
        self._reader = hiredis.Reader(notEnoughData=NotImplemented)
        self._multi, self._exec = self._pack(("MULTI",)), self._pack(("EXEC",))
        self._socket = _socket(where)
        self._send = self._socket.sendall
        if where.get("password"):
            self.execute("AUTH", *filter(None, (where.get("username"), where["password"])))
        if where.get("db"):
            self.execute("SELECT", where["db"])

    def execute(self, *command: Argument) -> Any:
        self._send(self._pack(command))
        return self._raise_if_error(self._answer())

    def _answer(self) -> Any:
        gets = self._reader.gets
        answer = gets()
        while answer is NotImplemented:
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(received)
            answer = gets()
        return answer

    def _raise_if_error(self, answer: object) -> object:
        if isinstance(answer, self._error):
            raise answer
        return answer

    def transaction(self, commands: Iterable[Command]) -> list[object]:
        """Sends commands while the iterator creates them; the server queues them until EXEC."""
        sent = 0
        waiting = [self._multi]
        size = 0
        try:
            for packed in map(self._pack, commands):
                waiting.append(packed)
                size += len(packed)
                if size > CHUNK_BYTES:
                    self._send(b"".join(waiting))
                    sent += len(waiting)
                    waiting, size = [], 0
        except BaseException:
            with suppress(OSError):
                self._discard(sent)
            raise
        self._send(b"".join([*waiting, self._exec]))
        queued = [self._answer() for _ in range(sent + len(waiting))]
        answers = self._answer()
        for answer in chain(queued, (answers,)):
            self._raise_if_error(answer)
        for answer in answers:
            self._raise_if_error(answer)
        return list(answers)

    def pipeline(self, commands: Sequence[Command]) -> list[object]:
        self._send(b"".join(map(self._pack, commands)))
        answers = [self._answer() for _ in commands]
        return list(map(self._raise_if_error, answers))

    def _discard(self, sent: int) -> None:
        if sent:
            self._send(self._pack(("DISCARD",)))
            for _ in range(sent + 1):
                self._answer()

    def close(self) -> None:
        self._socket.close()


class Native(Thin):
    """A connection through hiredis until native load takes the socket: see `Exchange`."""

    def __init__(self, where: ConnectionArguments) -> None:
        super().__init__(where)
        self.exchange = Exchange("redis", self._socket.fileno(), encrypted=False)

    def execute(self, *command: Argument) -> Any:
        # The base class's constructor calls this method before the attribute exists.
        exchange = getattr(self, "exchange", None)
        if exchange is None or not exchange.active:
            return super().execute(*command)
        return exchange.ask(self._pack(command))

    def transaction(self, commands: Iterable[Command]) -> list[object]:
        if not self.exchange.active:
            return super().transaction(commands)
        packed = [self._multi, *map(self._pack, commands), self._exec]
        answers: list[object] = self.exchange.ask(((b"".join(packed), len(packed)),))[-1]
        return answers


def _socket(where: ConnectionArguments) -> socket.socket:
    if "path" in where:
        unix = socket.socket(socket.AF_UNIX)
        unix.connect(where["path"])
        return unix
    tcp = socket.create_connection((where.get("host", "localhost"), where.get("port", 6379)))
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tcp
