"""The port `requests` through libcurl, for every engine that is a web server."""

import resource
from typing import Any

from dyno.contracts.model import Caveat, Refused
from dyno.suites.http import Requester, RequestOptions

SPARE = 200
"""Number of open files besides connections."""
LOOPBACK = Caveat("loopback", "is on the client's machine: no network is between them, and they share its cores")


class Requests:
    """See `dyno.suites.http.Requests`. An engine has two methods: `publish`, and `transport`, which returns whether
    its server has TLS, and libcurl's options for a version of HTTP."""

    def __init__(self, engine: Any, how: RequestOptions) -> None:
        # Import here, so that listing engines doesn't take these 15 ms.
        from dyno.http.options import Options

        self._how, self.publish = how, engine.publish
        tls, others = engine.transport(how.version)
        two = how.version == "2"
        # Without TLS, version 2 can't be negotiated, so libcurl uses it without negotiating.
        self._options = Options(
            http1_1=not two, http2=two and tls, http2_prior_knowledge=two and not tls, max_time=how.max_time, **others
        )

    def asking(self, places: int, fresh: bool) -> Requester:
        from dyno.http.multi import CurlRequester

        allow_open_files(places)
        return CurlRequester(self._options, places, fresh, keeps=not self._how.large)

    def close(self) -> None:
        return None


def allow_open_files(connections: int) -> None:
    """Raises this process's limit of open files for `connections`. Raises Refused if the hard limit is lower."""
    count = connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Refused(f"needs {count:,} open files, and the limit is {hard:,}: raise it (ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def client_version() -> str:
    """Returns the versions of libcurl and pycurl: 'libcurl 8.5.0, PycURL/7.45.7'."""
    from dyno.http import curl

    pycurl, libcurl, *_ = curl.pycurl().version.split()
    return f"{libcurl.replace('/', ' ')}, {pycurl}"
