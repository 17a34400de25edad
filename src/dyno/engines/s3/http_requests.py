"""The port `requests` through libcurl, for every engine that is a web server."""

import resource
from collections.abc import Sequence
from typing import Any

from dyno.contracts.model import Caveat, Refused, UsageError
from dyno.suites.http import Requester, RequestOptions, Target

SPARE = 200
"""Number of open files besides connections."""
LOOPBACK = Caveat("loopback", "is on the client's machine: no network is between them, and they share its cores")


class Requests:
    """See `dyno.suites.http.Requests`. An engine has two methods: `publish`, and `transport`, which returns whether
    its server has TLS, and libcurl's options for a version of HTTP."""

    def __init__(self, engine: Any, how: RequestOptions) -> None:
        # Import here, so that listing engines doesn't take these 15 ms.
        from dyno.suites.http.options import Options

        self._how, self._engine = how, engine
        tls, others = engine.transport(how.version)
        if how.version == "3" and not tls:
            raise Refused("HTTP/3 needs TLS: name an https address")
        if how.method == "HEAD" and how.data is not None:
            raise Refused("a HEAD request has no body: leave out send")
        # Without TLS, version 2 can't be negotiated, so libcurl uses it without negotiating.
        versions = {"1.1": "http1_1", "2": "http2" if tls else "http2_prior_knowledge", "3": "http3_only"}
        # libcurl sends GET, HEAD and POST by its options for them, and other methods by name.
        self._head, post, get = (how.method == method for method in ("HEAD", "POST", "GET"))
        self._options = Options(
            **{versions[how.version]: True, **others, "header": (*how.header, *others.get("header", ()))},
            request=None if self._head or post or (get and how.data is None) else how.method,
            head=self._head,
            data=b"" if post and how.data is None else how.data,
            location=how.location,
            max_time=how.max_time,
        )

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        targets: Sequence[Target] = self._engine.publish(bodies)
        # A response to HEAD has no body, and the suite learns that by a request.
        if self._head:
            return [Target(target.url, None, None) for target in targets]
        return targets

    def asking(self, places: int, fresh: bool) -> Requester:
        from dyno.suites.http.multi import CurlRequester

        allow_open_files(places)
        try:
            return CurlRequester(self._options, places, fresh, keeps=not self._how.large)
        except UsageError as error:
            raise Refused(str(error)) from None

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
    from dyno.suites.http import curl

    pycurl, libcurl, *_ = curl.pycurl().version.split()
    return f"{libcurl.replace('/', ' ')}, {pycurl}"
