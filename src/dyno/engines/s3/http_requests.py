"""The port `requests` through libcurl or native load, for every engine that is a web server."""

import resource
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dyno.contracts.model import Caveat, Refused, UsageError, Value
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT, missing_native
from dyno.contracts.settings import Setting, choice
from dyno.suites.http import Requester, RequestOptions, Target

SPARE = 200
"""Number of open files besides connections."""
CLIENT_SETTING = Setting(
    CLIENT, choice("libcurl", NATIVE_CLIENT), "libcurl", "libcurl (pycurl), or native: native load"
)
LOOPBACK = Caveat("loopback", "is on the client's machine: no network is between them, and they share its cores")


class Requests:
    """See `dyno.suites.http.Requests`. An engine has the method `publish`; `transport`, which returns whether its
    server has TLS, and libcurl's options for a version of HTTP; and `client`, a value of CLIENT_SETTING."""

    def __init__(self, engine: Any, how: RequestOptions) -> None:
        # Import here, so that listing engines doesn't take these 15 ms.
        from dyno.suites.http.options import Options

        self._how, self._engine = how, engine
        # Version 2 and redirects need libcurl.
        self._native = engine.client == NATIVE_CLIENT and how.version == "1.1" and not how.location
        self._urls: Sequence[str] = ()
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
        self._urls = [target.url for target in targets]
        # A response to HEAD has no body, and the suite learns that by a request.
        if self._head:
            return [Target(target.url, None, None) for target in targets]
        return targets

    def asking(self, places: int, fresh: bool, library: bool = False) -> Requester:
        from dyno.suites.http.multi import CurlRequester
        from dyno.suites.http.native import Servers, UrlRequester

        try:
            if self._native and not library:
                servers = Servers(self._urls)
                allow_open_files(places * len(servers.origins))
                return UrlRequester(self._urls, servers, places, fresh, self._options)
            allow_open_files(places)
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


def explain_native(options: Mapping[str, Value], urls: Iterable[str] = ()) -> str | None:
    """Returns why native load can't request these URLs, if the options choose it, in one line; else None."""
    if options[CLIENT] != NATIVE_CLIENT:
        return None
    if missing := missing_native(options):
        return missing
    from dyno.suites.http.native import explain_proxy

    return next(filter(None, map(explain_proxy, urls)), None)


def client_version(client: str) -> str:
    """Returns the versions of libcurl and pycurl: 'libcurl 8.5.0, PycURL/7.45.7'; or the name of native load."""
    if client == NATIVE_CLIENT:
        return "Dyno's native load"
    from dyno.suites.http import curl

    pycurl, libcurl, *_ = curl.pycurl().version.split()
    return f"{libcurl.replace('/', ' ')}, {pycurl}"
