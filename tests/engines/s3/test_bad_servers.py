"""Native load on servers that misbehave: each has one outcome, without a hang. libcurl's outcome stands beside it."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns as now
from time import sleep
from typing import Any, NamedTuple

import pytest
from certificates import Authority
from httpserving import Answer, Scripted, cut, response, scripted, whole
from needed import unavailable

from dyno.contracts.model import Refused, Wrong
from dyno.engines.s3 import engine_nginx, engine_website
from dyno.engines.s3.http_requests import Requests
from dyno.suites._shared.digest import new_digest
from dyno.suites.http import RequestOptions, Target
from dyno.suites.http.multi import RequestFailed, Response
from dyno.suites.http.native import MOST_BYTES, UrlRequester
from dyno.suites.http.workload import check_body, check_connection, request_all

pytestmark = pytest.mark.usefixtures("processes")

MIB = 1 << 20
HANG_NS = 30_000_000_000
"""After so long, a test reports a hang."""


def requests_of(url: str, client: str = "native", patience: float = 20, **options: Any) -> Requests:
    """Returns the port of the engine `website` on this URL."""
    resolved = engine_website.ENGINE.resolve({"url": url, "client": client, **options})
    engine = engine_website.ENGINE.opener(Path(), None, resolved, None)
    requests = Requests(engine, RequestOptions(max_time=patience))
    requests.publish([])
    return requests


def native_requester(url: str, places: int) -> UrlRequester:
    requester: Any = requests_of(url).asking(places, False)
    assert isinstance(requester, UrlRequester)
    return requester


def request_twice(url: str, client: str = "native", patience: float = 20, **options: Any) -> Sequence[object]:
    """Requests a URL twice on one place, so that the second request would see what the first has left."""
    with closing(requests_of(url, client, patience, **options).asking(1, False)) as requester:
        return request_all(requester, 1, [url, url])


def describe(answer: object) -> str:
    """Returns the outcome of a request in one line."""
    if isinstance(answer, Response):
        return f"{answer.status} with {answer.size} bytes"
    if isinstance(answer, RequestFailed):
        return f"{answer.number}: {answer}"
    return f"{type(answer).__name__}: {answer}"


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Fails if the peak of this process's memory grows by more than `most` bytes meanwhile."""
    # 5 resets the peak: proc_pid_clear_refs(5).
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_memory()
    yield
    assert peak_memory() - before <= most


def peak_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


# -- one answer each ------------------------------------------------------------------------------------------------


def send_half_head(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Le")


def send_long_header(peer: socket.socket) -> None:
    peer.sendall(response(b"", "200 OK", "X-Long: " + "x" * MIB))


def send_endless_chunks(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        peer.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")


def send_more_than_stated(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, world")


def send_two_responses(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" * 2)


def send_continue_first(peer: socket.socket) -> None:
    peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"hello"))


def reset_within_body(peer: socket.socket) -> None:
    cut(peer)
    # Closing a socket with this option resets the connection: socket(7).
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


class Bad(NamedTuple):
    answer: Answer
    native: str
    """Beginning of the outcome with native load."""
    libcurl: str


PARTIAL = "18: the server closed the connection"
BAD = {
    "early_close": Bad(lambda peer: None, "52: the server closed the connection without a response", "52: "),
    "half_head": Bad(send_half_head, f"{PARTIAL} within the head", "200 with 0 bytes"),
    "long_header": Bad(send_long_header, "100: the head of the response has more than 65536 bytes", "100: "),
    "short_body": Bad(cut, f"{PARTIAL} after 100 of 1000 bytes", "18: "),
    "long_body": Bad(send_more_than_stated, "56: the server sent more than its response has", "200 with 5 bytes"),
    "two_responses": Bad(send_two_responses, "56: the server sent more than its response has", "200 with 5 bytes"),
    "continue_first": Bad(send_continue_first, "200 with 5 bytes", "200 with 5 bytes"),
    "redirect": Bad(whole(b"", "302 Found", "Location: /"), "302 with 0 bytes", "302 with 0 bytes"),
    "reset": Bad(reset_within_body, "56: can't receive the response: the server reset", "56: "),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with scripted(**{name: bad.answer for name, bad in BAD.items()}) as server:
        yield server


@pytest.mark.parametrize("name", BAD)
def test_bad_server_has_one_outcome(server: Scripted, name: str) -> None:
    bad = BAD[name]
    for client, expected in (("native", bad.native), ("libcurl", bad.libcurl)):
        for answer in request_twice(f"{server.url}/{name}", client):
            assert describe(answer).startswith(expected), client


def test_idle_connection_with_a_second_response_is_not_used_again() -> None:
    """The server answers each request twice, the second time while the client waits for its next request."""
    hello = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    def answer_twice(peer: socket.socket) -> None:
        while peer.recv(65536):
            peer.sendall(hello)
            sleep(0.01)
            peer.sendall(hello)

    with serving(answer_twice) as port:
        url = f"http://127.0.0.1:{port}/"
        with closing(native_requester(url, 1)) as requester:
            prepared = requester.prepare([url] * 5)
            due = [now() + at * 100_000_000 for at in range(5)]
            answers = list(requester.run(1, prepared, due, now() + HANG_NS, MOST_BYTES).decode())
            for one in prepared:
                sleep(0.1)
                answers += requester.run(1, [one], None, now() + HANG_NS, MOST_BYTES).decode()
    assert [(describe(answer), answer.connects) for answer in answers] == [("200 with 5 bytes", 1)] * 10


def test_compressed_body_is_another_than_expected(server: Scripted) -> None:
    server.answers = {**server.answers, "/zipped": whole(gzip.compress(b"hello"), "200 OK", "Content-Encoding: gzip")}
    target = Target(f"{server.url}/zipped", None, new_digest(b"hello").digest())
    for client in ("native", "libcurl"):
        for answer in request_twice(target.url, client):
            with pytest.raises(Wrong, match="the body is another one than expected"):
                check_body(target, answer)


# -- servers that never end ---------------------------------------------------------------------------------------


def test_endless_header_ends_with_bounded_memory(server: Scripted) -> None:
    server.answers = {**server.answers, "/endless": server.endless}
    with bounded_memory(8 * MIB):
        first, second = request_twice(f"{server.url}/endless")
    assert describe(first) == describe(second) == "100: the head of the response has more than 65536 bytes"


def test_endless_body_ends_by_patience_with_bounded_memory(server: Scripted) -> None:
    server.answers = {**server.answers, "/chunks": send_endless_chunks}
    with bounded_memory(8 * MIB):
        first, second = request_twice(f"{server.url}/chunks", patience=0.5)
    for answer in (first, second):
        assert describe(answer).startswith("28: no whole response within 0.5 s: ")
        assert describe(answer).endswith(" bytes of its body came")


@pytest.mark.parametrize(("start", "came"), [(0, "a part of its head came"), (60, "2 bytes of its body came")])
def test_a_byte_a_second_ends_by_patience(server: Scripted, start: int, came: str) -> None:
    """`start`: so many bytes come at once, so that the patience ends within the head, or within the body."""
    whole_response = response(bytes(1_000), "200 OK")

    def drip(peer: socket.socket) -> None:
        head = whole_response.index(b"\r\n\r\n") + len(b"\r\n\r\n")
        at = head if start else 1
        peer.sendall(whole_response[:at])
        while at < len(whole_response) and not server.over.wait(1):
            peer.sendall(whole_response[at : at + 1])
            at += 1

    server.answers = {**server.answers, "/drip": drip}
    with closing(requests_of(f"{server.url}/drip", patience=2.5).asking(2, False)) as requester:
        answers = request_all(requester, 2, [f"{server.url}/drip"] * 2)
    assert {describe(answer) for answer in answers} == {f"28: no whole response within 2.5 s: {came}"}


# -- TLS ----------------------------------------------------------------------------------------------------------


@contextmanager
def serving(answer: Answer) -> Iterator[int]:
    """Serves connections by `answer`, which gets them unread. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer, suppress(OSError):
                    peer.settimeout(10)
                    answer(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listening.getsockname()[1])
        # Wakes up the thread that waits in accept(2).
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def speak_tls(context: ssl.SSLContext) -> Answer:
    def answer(peer: socket.socket) -> None:
        with peer.dup() as raw:
            try:
                with context.wrap_socket(peer, server_side=True) as secure:
                    secure.recv(65536)
                    secure.sendall(response(b"hello"))
            except ssl.SSLError:
                # Read the rest: otherwise the close would reset the connection, and the client might miss the alert.
                while raw.recv(65536):
                    pass

    return answer


def speak_plainly(peer: socket.socket) -> None:
    peer.recv(65536)
    peer.sendall(response(b"", "400 Bad Request"))


class BadTls(NamedTuple):
    settings: dict[str, Any]
    """Attributes of the server's SSLContext."""
    native: str
    libcurl: str
    trusted: bool = True


OLD = {"minimum_version": ssl.TLSVersion.MINIMUM_SUPPORTED, "maximum_version": ssl.TLSVersion(0x0302)}
"""TLS 1.1, whose name is deprecated."""
BAD_TLS = {
    "good": BadTls({}, "200 with 5 bytes", "200 with 5 bytes"),
    "untrusted": BadTls({}, "60: the server's certificate: its issuer is not trusted", "60: ", trusted=False),
    "old": BadTls(OLD, "35: TLS: received fatal alert: ", "35: "),
    "no_certificate": BadTls(
        {"verify_mode": ssl.CERT_REQUIRED},
        "58: the server rejects the client's certificate: CertificateRequired",
        "56: ",
    ),
}


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
@pytest.mark.parametrize("name", BAD_TLS)
def test_bad_tls_server_has_one_outcome(authority: Authority, name: str) -> None:
    bad = BAD_TLS[name]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    context.load_verify_locations(authority.authority)
    for attribute, value in bad.settings.items():
        setattr(context, attribute, value)
    options: dict[str, Any] = {"cacert": str(authority.authority)} if bad.trusted else {}
    with serving(speak_tls(context)) as port:
        for client, expected in (("native", bad.native), ("libcurl", bad.libcurl)):
            for answer in request_twice(f"https://127.0.0.1:{port}/", client, **options):
                assert describe(answer).startswith(expected), client


@pytest.mark.parametrize(
    ("option", "reason"),
    [("cacert", "no certificate in PEM"), ("cert", "no certificate in PEM"), ("key", "no key in PEM")],
)
def test_file_that_is_no_pem_is_named(authority: Authority, home: Path, option: str, reason: str) -> None:
    file = home / "text"
    file.write_text("no PEM")
    own: dict[str, Any] = {
        "cert": str(authority.certificate),
        "key": str(authority.key),
        "cacert": str(authority.authority),
    }
    with pytest.raises(Refused, match=f"^can't use {file}: {reason}"):
        request_twice("https://127.0.0.1:1/", **{**own, option: str(file)})


def test_plain_server_is_no_tls_server() -> None:
    with serving(speak_plainly) as port:
        for client in ("native", "libcurl"):
            for answer in request_twice(f"https://127.0.0.1:{port}/", client, insecure=True):
                assert describe(answer).startswith("35: TLS"), client
                with pytest.raises(Refused, match="check whether the port speaks TLS"):
                    check_connection(Target("https://127.0.0.1/", None, None), answer)


# -- servers that change ------------------------------------------------------------------------------------------


def test_server_that_recovers_is_seen_to_recover() -> None:
    """The server answers with 503 until a second has passed, and requests are due every 50 ms."""
    begin = now()
    with scripted() as server:

        def answer(peer: socket.socket) -> None:
            status = "503 Service Unavailable" if now() - begin < 1_000_000_000 else "200 OK"
            peer.sendall(response(b"", status))

        server.answers = {"/": answer}
        with closing(native_requester(f"{server.url}/", 4)) as requester:
            due = [begin + at * 50_000_000 for at in range(40)]
            ran = requester.run(4, requester.prepare([f"{server.url}/"] * 40), due, begin + HANG_NS, MOST_BYTES)
    outcomes = [describe(answer) for answer in ran.decode()]
    recovered = outcomes.index("200 with 0 bytes")
    assert outcomes == ["StatusError: HTTP 503"] * recovered + ["200 with 0 bytes"] * (40 - recovered)
    assert requester.codes == {503: recovered, 200: 40 - recovered}
    assert all(start >= moment for start, moment in zip(ran.starts, due, strict=True))


def test_reloads_of_nginx_fail_no_request(home: Path) -> None:
    """A reload ends the workers, which close their idle connections."""
    if missing := engine_nginx.explain_unavailability():
        unavailable(missing)
    home.parent.chmod(0o755)
    home.chmod(0o755)
    body = bytes(1_000)
    with closing(engine_nginx.Nginx(home / "server", tls=False, workers=2)) as nginx:
        nginx.start()
        (nginx.root / "file").write_bytes(body)
        url = f"{nginx.address.url}/file"
        target = Target(url, len(body), new_digest(body).digest())
        over = threading.Event()

        def reload() -> None:
            (main,) = nginx.pids()
            while not over.wait(1):
                os.kill(main, signal.SIGHUP)

        thread = threading.Thread(target=reload)
        thread.start()
        end = now() + 5_000_000_000
        answers = list[Any]()
        with closing(native_requester(url, 16)) as requester:
            prepared = requester.prepare([url] * 500)
            while now() < end:
                answers += requester.run(16, prepared, None, now() + HANG_NS, MOST_BYTES).decode()
        over.set()
        thread.join()
    for answer in answers:
        check_body(target, answer)
    # 16 at first, and again after each of the reloads, of which there are 4 on an idle machine.
    assert 32 <= sum(answer.connects for answer in answers) <= 16 * 6


def test_ten_thousand_requests_to_a_closed_port_are_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
    url = f"http://127.0.0.1:{port}/"
    start = now()
    with closing(native_requester(url, 64)) as requester:
        ran = requester.run(64, requester.prepare([url] * 10_000), None, start + HANG_NS, MOST_BYTES)
    assert now() - start < HANG_NS
    assert len(ran.decode()) == 10_000
    assert {describe(answer) for answer in ran.decode()} == {"7: can't connect: the connection was refused"}
    with pytest.raises(Refused, match="whether the server is running"):
        check_connection(Target(url, None, None), ran.decode()[0])
