"""The port `requests` through libcurl, for every engine that is a web server."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from dyno.contracts.model import Caveat, Refused
from dyno.suites.http import Requester, RequestOptions, Target

if TYPE_CHECKING:
    from dyno.http.options import Options

SPARE = 200
"""Number of open files besides connections."""
LOOPBACK = Caveat("loopback", "is on the client's machine: no network is between them, and they share its cores")


class Web(Protocol):
    """An engine whose server gets requests."""

    def options(self, how: RequestOptions) -> Options: ...

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]: ...


class Requests:
    """See `dyno.suites.http.Requests`."""

    def __init__(self, engine: Any, how: RequestOptions) -> None:
        self._how, self.publish = how, engine.publish
        self._options = replace(engine.options(how), max_time=how.max_time)

    def asking(self, places: int, fresh: bool) -> Requester:
        from dyno.http.multi import CurlRequester

        allow_open_files(places)
        return CurlRequester(self._options, places, fresh, keeps=not self._how.large)

    def close(self) -> None:
        return None


def allow_open_files(connections: int) -> None:
    """Raises this process's limit of open files so that it can have `connections` connections. Raises Refused if the
    hard limit is lower."""
    count = connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Refused(f"needs {count:,} open files, and the limit is {hard:,}: raise it (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def options_for(version: str, secure: bool, **others: Any) -> Options:
    """Returns libcurl's options for a version of HTTP. Without TLS, version 2 can't be negotiated, so libcurl uses it
    without negotiating."""
    # Import here, so that listing engines doesn't take these 15 ms.
    from dyno.http.options import Options

    two = version == "2"
    return Options(http1_1=not two, http2=two and secure, http2_prior_knowledge=two and not secure, **others)


def client_version() -> str:
    """Returns the versions of libcurl and pycurl: 'libcurl 8.5.0, PycURL/7.45.7'."""
    from dyno.http import curl

    pycurl, libcurl, *_ = curl.pycurl().version.split()
    return f"{libcurl.replace('/', ' ')}, {pycurl}"
