"""What asks servers by HTTP, through libcurl: the port `requests`. Which server it is may not be put here."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from dyno.contracts.model import Refused
from dyno.http.options import Options
from dyno.suites.http import Requester, RequestOptions, Target

SPARE = 200
"""Files that are open beside connections."""


class Web(Protocol):
    """An engine that is asked."""

    def options(self, how: RequestOptions) -> Options:
        """How requests are made of it."""

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]: ...


class Requests:
    """See `dyno.suites.http.Requests`."""

    def __init__(self, engine: Any, how: RequestOptions) -> None:
        self._engine: Web = engine
        self._how = how
        self._options = replace(engine.options(how), max_time=how.max_time)

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        return self._engine.publish(bodies)

    def asking(self, places: int, fresh: bool) -> Requester:
        from dyno.http.multi import CurlRequester

        may_open(places + SPARE)
        return CurlRequester(self._options, places, fresh, keeps=not self._how.large)

    def close(self) -> None:
        pass


def may_open(count: int) -> None:
    """Raises this process's limit of open files, as far as it may. Raises Refused where that is not enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise Refused(f"{count:,} files open at once are wanted, and {hard:,} are allowed: see ulimit -Hn")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def by(version: str, secure: bool, **others: Any) -> Options:
    """Options of a version of HTTP: without TLS nobody asks whether the server has the second."""
    two = version == "2"
    return Options(http1_1=not two, http2=two and secure, http2_prior_knowledge=two and not secure, **others)
