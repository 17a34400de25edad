"""The port `requests` on nginx started by Dyno, and on scripted servers in the role of a user's own server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from httpserving import Scripted, cut, scripted, whole
from needed import unavailable

from dyno import registry
from dyno.contracts.equality import same
from dyno.contracts.model import Refused, Value, Wrong
from dyno.contracts.suite import Job
from dyno.suites.http import RequestOptions, Requests
from dyno.suites.http.workload import CHECKS, digest_of, request_all

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("http")
NGINX = [
    ({}, "1.1"),
    ({"h2c": True}, "2"),
    ({"tls": True, "workers": 2}, "1.1"),
    ({"tls": True}, "2"),
    ({"client": "native"}, "1.1"),
    ({"client": "native", "tls": True}, "1.1"),
    ({"client": "native", "tls": True, "verify": True}, "1.1"),
]
CLIENTS = ["libcurl", "native"]


@contextmanager
def opened(name: str, home: Path, given: Mapping[str, Value], how: RequestOptions) -> Iterator[Callable[[str], Any]]:
    """Starts a server; yields a function that opens the port on a store of a given name."""
    spec = registry.reduce_to_suite(SUITE, registry.engine(name))
    assert spec is not None
    options = spec.resolve(given)
    if lacking := spec.explain_unavailability(options):
        unavailable(f"engine {name} {lacking}")
    assert spec.server is not None
    server = spec.create_server(home / "server", None, options, 1)
    assert server is not None
    with closing(server):
        server.start()
        job = Job(spec, home, None, options, {}, seed=1, clients=1, server=server)

        @contextmanager
        def port(store: str) -> Iterator[Requests]:
            (home / store).mkdir(exist_ok=True)
            with closing(job.open(home / store)) as engine, closing(job.port(engine, how)) as requests:
                yield requests

        yield port


@pytest.mark.parametrize(("options", "version"), NGINX, ids=str)
def test_nginx_serves_published_bodies(home: Path, options: dict[str, Value], version: str) -> None:
    with opened("nginx", home, options, RequestOptions(version)) as port:
        for check in CHECKS.values():
            check(port, None)
    with opened("nginx", home, options, RequestOptions(version, large=True)) as port:
        for check in CHECKS.values():
            check(port, None)


def test_nginx_without_tls_refuses_http2_unless_h2c(home: Path) -> None:
    with (
        opened("nginx", home, {}, RequestOptions("2")) as port,
        pytest.raises(Refused, match="protocol=2 with h2c"),
        port("store"),
    ):
        pass


@pytest.mark.parametrize("client", CLIENTS)
def test_connections_are_reused(home: Path, client: str) -> None:
    with opened("nginx", home, {"client": client}, RequestOptions()) as port, port("store") as requests:
        (target,) = requests.publish([b"body"])
        with closing(requests.asking(4, False)) as requester:
            answers = request_all(requester, 4, [target.url] * 100)
        assert 1 <= sum(answer.connects for answer in answers) <= 4
        assert requester.codes == {200: 100}


@pytest.mark.parametrize("client", CLIENTS)
def test_thousands_of_requests_are_in_flight(home: Path, client: str) -> None:
    """More connections than select(2) could handle."""
    with opened("nginx", home, {"client": client}, RequestOptions()) as port, port("store") as requests:
        (target,) = requests.publish([b"body"])
        with closing(requests.asking(3_000, False)) as requester:
            answers = request_all(requester, 3_000, [target.url] * 3_000)
    assert [digest_of(target, answer) for answer in answers] == [target.digest] * 3_000


# -- the user's own server -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with scripted(
        page=whole(b"hello"),
        other=whole(b"other"),
        busy=whole(b"", "503 Service Unavailable"),
        cut=cut,
    ) as server:
        server.answers = {**server.answers, "/stalled": server.stall}
        yield server


def test_the_users_own_urls_are_requested(home: Path, server: Scripted) -> None:
    urls = f"{server.url}/page {server.url}/other"
    with opened("website", home, {"url": urls}, RequestOptions()) as port:
        for check in CHECKS.values():
            check(port, None)
        with port("store") as requests:
            assert [target.url for target in requests.publish([])] == urls.split()


@pytest.mark.parametrize(("path", "message"), [("busy", "HTTP 503"), ("cut", "curl 18"), ("stalled", "curl 28")])
def test_failed_request_is_an_error(home: Path, server: Scripted, path: str, message: str) -> None:
    how = RequestOptions(max_time=0.5 if path == "stalled" else 60)
    with opened("website", home, {"url": f"{server.url}/{path}"}, how) as port, port("store") as requests:
        (target,) = requests.publish([])
        with closing(requests.asking(2, True)) as requester:
            answers = request_all(requester, 2, [target.url] * 3)
    assert all(isinstance(answer, Exception) and message in str(answer) for answer in answers)
    error, expected = (Wrong, "a request failed") if path == "cut" else (Refused, message)
    with pytest.raises(error, match=expected):
        digest_of(target, answers[0])


def test_wrong_body_fails_every_check(home: Path) -> None:
    class WrongDigests:
        """Publishes bodies with wrong digests."""

        def __init__(self, inner: Requests) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def publish(self, bodies: Any) -> Any:
            return [target._replace(digest=b"x" * 32) for target in self._inner.publish(bodies)]

    with opened("nginx", home, {}, RequestOptions()) as port:

        @contextmanager
        def wrong(store: str) -> Iterator[Any]:
            with port(store) as inner:
                yield WrongDigests(inner)

        for name, check in CHECKS.items():
            with pytest.raises(Wrong):
                check(wrong, None)
            assert same(name in CHECKS, True)
