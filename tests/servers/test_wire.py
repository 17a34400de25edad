"""Tests the native load for servers, with peers that follow the protocols and peers that violate them."""

from __future__ import annotations

import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from wire_responses import (
    NOT_OK,
    OK,
    READY,
    RESPONSES,
    column,
    document,
    message,
    op_msg,
    packet,
    row,
    text_field,
    value_of,
)

native = pytest.importorskip("dyno._native")
if not hasattr(native, "Wire"):
    pytest.skip("the native load needs 64-bit Linux", allow_module_level=True)

FOREVER = 1 << 60
PONG = b"+PONG\r\n"


@contextmanager
def peers(*answers: Callable[[socket.socket], None]) -> Iterator[list[socket.socket]]:
    """Yields a connection to each of these servers. Each server runs in a thread with its own end."""
    pairs = [socket.socketpair() for _ in answers]
    threads = [
        threading.Thread(target=answer, args=(theirs,), daemon=True)
        for answer, (_, theirs) in zip(answers, pairs, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield [ours for ours, _ in pairs]
    finally:
        for ours, theirs in pairs:
            ours.close()
            theirs.close()
        for thread in threads:
            thread.join(10)


def replying(*pieces: bytes, request: int, pause: float = 0.0) -> Callable[[socket.socket], None]:
    """Returns a server that answers each request of `request` bytes with the pieces, one `send` each."""

    def serve(peer: socket.socket) -> None:
        received = b""
        while True:
            try:
                data = peer.recv(1 << 20)
            except OSError:
                return
            if not data:
                return
            received += data
            while len(received) >= request:
                received = received[request:]
                for piece in pieces:
                    with suppress(OSError):
                        peer.sendall(piece)
                    time.sleep(pause)

    return serve


def run(
    protocol: str,
    sockets: list[socket.socket],
    requests: Sequence[Sequence[Any]],
    due: Sequence[Sequence[int]] | None = None,
    deadline: int = FOREVER,
    most: int = FOREVER,
) -> list[Any]:
    wire = native.Wire(protocol, [each.fileno() for each in sockets])
    wire.load(requests)
    return wire.run(due, 0, deadline, most)


def times(answers: Any) -> list[np.ndarray]:
    return [np.frombuffer(column, dtype=np.int64) for column in answers.times()]


PING = native.redis(("PING",))


@pytest.mark.parametrize("connections", [1, 3])
def test_each_connection_has_its_answers_in_order(connections: int) -> None:
    def echo(peer: socket.socket) -> None:
        with peer.makefile("rwb", buffering=0) as stream:
            while stream.readline():
                length = int(stream.readline()[1:])
                stream.read(length + 2)
                length = int(stream.readline()[1:])
                value = stream.read(length + 2)[:-2]
                stream.write(b"$%d\r\n%s\r\n" % (len(value), value))

    requests = [[native.redis(("ECHO", f"{c}-{n}")) for n in range(50)] for c in range(connections)]
    with peers(*[echo] * connections) as sockets:
        results = run("redis", sockets, requests)
    for number, answers in enumerate(results):
        assert answers.decode(ValueError) == [b"%d-%d" % (number, n) for n in range(50)]
        starts, ends, freed = times(answers)
        assert (ends > starts).all() and (starts[1:] >= ends[:-1]).all()
        assert freed[0] == 0 and (freed[1:] == ends[:-1]).all()


@pytest.mark.parametrize("protocol", RESPONSES)
def test_response_of_any_protocol_may_arrive_bytewise(protocol: str) -> None:
    pieces = [bytes([byte]) for byte in RESPONSES[protocol](b"value")]
    with peers(replying(*pieces, request=len(PING))) as sockets:
        (answers,) = run(protocol, sockets, [[PING, PING]])
    assert [value_of(protocol, answer) for answer in answers.decode(ValueError)] == [b"value"] * 2


@pytest.mark.parametrize("protocol", RESPONSES)
def test_response_of_any_protocol_may_have_10_mb(protocol: str) -> None:
    value = b"v" * 10_000_000
    servers = [replying(RESPONSES[protocol](value), request=len(PING))] * 2
    with peers(*servers) as sockets:
        for answers in run(protocol, sockets, [[PING, PING], [PING]]):
            assert all(value_of(protocol, answer) == value for answer in answers.decode(ValueError))


def test_decoding_a_malformed_mongodb_reply_fails() -> None:
    whole = op_msg(document(text_field(b"v", b"x"), OK))
    for wrong in (op_msg(document()), whole[:12] + b"\x01" + whole[13:], whole[:20] + b"\x01" + whole[21:]):
        with peers(replying(wrong, request=len(PING))) as sockets:
            (answers,) = run("mongodb", sockets, [[PING]])
        with pytest.raises(ValueError, match="response"):
            answers.decode(ValueError)


def test_nested_redis_response_may_arrive_bytewise() -> None:
    pieces = [bytes([byte]) for byte in b"*2\r\n$3\r\na\r\n\r\n:7\r\n"]
    with peers(replying(*pieces, request=len(PING))) as sockets:
        (answers,) = run("redis", sockets, [[PING, PING]])
    assert answers.decode(ValueError) == [[b"a\r\n", 7]] * 2


def test_a_slow_response_is_waited_for() -> None:
    with peers(replying(b"+PO", b"NG\r\n", request=len(PING), pause=0.15)) as sockets:
        (answers,) = run("redis", sockets, [[PING]])
    starts, ends, _ = times(answers)
    assert answers.decode(ValueError) == [b"PONG"] and ends[0] - starts[0] >= 100_000_000


def test_request_and_response_may_have_10_mb() -> None:
    value = b"v" * 10_000_000
    request = native.redis(("SET", "key", value))
    reply = b"$%d\r\n%s\r\n" % (len(value), value)
    with peers(replying(reply, request=len(request)), replying(reply, request=len(request))) as sockets:
        for answers in run("redis", sockets, [[request, request], [request]]):
            assert all(answer == value for answer in answers.decode(ValueError))


@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("ending", ["closed", "reset", "half a response"])
def test_a_lost_connection_ends_the_run(ending: str, connections: int) -> None:
    def leave(peer: socket.socket) -> None:
        peer.recv(100)
        if ending == "half a response":
            peer.sendall(b"$5\r\nab")
        if ending == "reset":
            # Unread data makes the kernel reset the connection.
            time.sleep(0.1)
        peer.shutdown(socket.SHUT_RDWR)
        peer.close()

    servers = [leave] + [replying(PONG, request=len(PING))] * (connections - 1)
    with peers(*servers) as sockets, pytest.raises(ConnectionError, match=rf"connection 1 of {connections}"):
        run("redis", sockets, [[PING] * 1000] * connections)


@pytest.mark.parametrize(
    ("protocol", "request_", "response", "text"),
    [
        ("redis", PING, b"-ERR no such thing\r\n", "ERR no such thing"),
        (
            "postgresql",
            native.postgresql(b"s", ()),
            message(b"E", b"SERROR\0C22012\0Mzero\0\0") + READY,
            "22012: zero",
        ),
        ("mysql", native.mysql(1, ()), packet(1, b"\xff\x10\x04#42000wrong"), "1040: wrong"),
        (
            "mongodb",
            native.mongodb(1, document()),
            op_msg(document(NOT_OK, text_field(b"errmsg", b"wrong"), text_field(b"codeName", b"BadValue"))),
            "BadValue: wrong",
        ),
        (
            "mongodb",
            native.mongodb(1, document()),
            op_msg(
                document(
                    b"\x04writeErrors\0",
                    document(b"\x030\0" + document(b"\x10code\0" + struct.pack("<i", 11000))),
                    OK,
                )
            ),
            "11000: ",
        ),
    ],
)
def test_an_error_response_is_the_operations_answer(
    protocol: str, request_: bytes, response: bytes, text: str
) -> None:
    with peers(replying(response, request=len(request_))) as sockets:
        (answers,) = run(protocol, sockets, [[request_, request_]])
    errors = answers.decode(ValueError)
    assert [type(error) for error in errors] == [ValueError] * 2 and str(errors[0]) == text


def test_postgresql_rows_nulls_and_counts_are_decoded() -> None:
    request = native.postgresql(b"get", ("a", 5, None))
    assert request.startswith(b"B") and request.endswith(b"S\0\0\0\x04")
    selected = message(b"2") + row("é", None) + row("b", "") + message(b"C", b"SELECT 2\0") + READY
    notice = message(b"N", b"SNOTICE\0Mlook\0\0")
    updated = message(b"2") + notice + message(b"C", b"UPDATE 3\0") + READY
    for response, expected in ((selected, [("é", None), ("b", "")]), (updated, 3), (notice + selected, None)):
        with peers(replying(response, request=len(request))) as sockets:
            (answers,) = run("postgresql", sockets, [[request, request]])
        assert answers.decode(ValueError) == [expected or [("é", None), ("b", "")]] * 2


@pytest.mark.parametrize(
    "between",
    [
        message(b"N", b"Mlater\0\0"),
        message(b"S", b"TimeZone\0UTC\0"),
        message(b"A", struct.pack(">i", 7) + b"channel\0text\0"),
    ],
)
def test_notice_between_two_responses_is_ignored(between: bytes) -> None:
    request = native.postgresql(b"get", ())
    response = message(b"C", b"DELETE 1\0") + READY + between
    with peers(replying(response, request=len(request))) as sockets:
        (answers,) = run("postgresql", sockets, [[request] * 5])
    assert answers.decode(ValueError) == [1] * 5


@pytest.mark.parametrize("eof", [True, False])
def test_mysql_binary_rows_are_decoded(eof: bool) -> None:
    request = native.mysql(7, ("text", b"bytes", -5, None))
    assert struct.unpack_from("<I", request, 5) == (7,)
    columns = [column(253), column(253, charset=63), column(8), column(3, flags=0x20), column(5), column(253)]
    bitmap = bytes([0b1000_0000])
    values = b"\x02\xc3\xa9\x01\xff" + struct.pack("<qId", -9, 4_000_000_000, 0.5)
    end = b"\xfe\0\0\x02\0" if eof else b"\xfe\0\0\x02\0\0\0"
    payloads = [bytes([len(columns)]), *columns, *([end] if eof else []), b"\0" + bitmap + values, end]
    response = b"".join(packet(number + 1, payload) for number, payload in enumerate(payloads))
    with peers(replying(response, request=len(request))) as sockets:
        (answers,) = run("mysql", sockets, [[request] * 3])
    assert answers.decode(ValueError) == [[("é", b"\xff", -9, 4_000_000_000, 0.5, None)]] * 3


def test_operation_sends_its_requests_one_by_one() -> None:
    seen: list[bytes] = []

    def serve(peer: socket.socket) -> None:
        for number in range(4):
            seen.append(peer.recv(1000))
            peer.sendall(b":%d\r\n" % number)

    a, b = native.redis(("A",)), native.redis(("B",))
    several = ((a, 1), (b, 1))
    with peers(serve) as sockets:
        (answers,) = run("redis", sockets, [[several, several]])
    assert answers.decode(ValueError) == [[0, 1], [2, 3]] and len(answers.times()[0]) == 16
    assert seen == [a, b] * 2


def test_a_request_may_have_several_responses() -> None:
    together = native.redis(("MULTI",)) + native.redis(("SET", "a", 1)) + native.redis(("EXEC",))
    response = b"+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"
    with peers(replying(response[:7], response[7:], request=len(together))) as sockets:
        (answers,) = run("redis", sockets, [[((together, 3),), ((together, 3),)]])
    assert answers.decode(ValueError) == [[b"OK", b"QUEUED", [b"OK"]]] * 2 and len(answers) == 2


def test_operations_begin_when_due_and_before_deadline() -> None:
    with peers(*[replying(PONG, request=len(PING))] * 2) as sockets:
        begin = native.Wire.now()
        due = [[begin + n * 10_000_000 + c * 1_000_000 for n in range(10)] for c in range(2)]
        results = run("redis", sockets, [[PING] * 10] * 2, due, begin + 55_000_000)
    for answers, moments in zip(results, due, strict=True):
        starts, _, _ = times(answers)
        assert len(starts) == 6 and (starts >= moments[:6]).all()


def test_closed_loop_ends_at_deadline_or_memory_limit() -> None:
    with peers(*[replying(PONG, request=len(PING))] * 2) as sockets:
        deadline = native.Wire.now() + 300_000_000
        results = run("redis", sockets, [[PING] * 200_000] * 2, deadline=deadline)
        assert all(0 < len(answers) < 200_000 for answers in results)
        assert all(times(answers)[0].max() <= deadline + 1_000_000 for answers in results)
        assert sum(map(len, run("redis", sockets, [[PING] * 1000] * 2, most=10 * len(PONG)))) < 20


def test_malformed_responses_and_arguments_are_refused() -> None:
    with peers(replying(b"?what\r\n", request=len(PING))) as sockets, pytest.raises(ConnectionError, match="RESP"):
        run("redis", sockets, [[PING]])
    with peers(replying(PONG, request=len(PING))) as sockets:
        for requests, due, error in (
            ([], None, ValueError),
            ([[b""]], None, ValueError),
            ([[()]], None, TypeError),
            ([[((PING, 0),)]], None, ValueError),
            ([["text"]], None, TypeError),
            ([[PING]], [[]], ValueError),
        ):
            with pytest.raises(error):
                run("redis", sockets, requests, due)
    with pytest.raises(ValueError, match="protocol"):
        native.Wire("http", [])


@pytest.mark.parametrize("connections", [1, 2])
def test_a_signal_ends_the_wait(connections: int) -> None:
    def silent(peer: socket.socket) -> None:
        time.sleep(0.2)

    main = threading.get_ident()

    def signalling(peer: socket.socket) -> None:
        silent(peer)
        signal.pthread_kill(main, signal.SIGUSR1)

    def stop(number: int, frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        servers = [signalling] + [silent] * (connections - 1)
        with peers(*servers) as sockets, pytest.raises(InterruptedError):
            run("redis", sockets, [[PING]] * connections)
    finally:
        signal.signal(signal.SIGUSR1, before)
