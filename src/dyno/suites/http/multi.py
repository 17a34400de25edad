"""Many concurrent requests in one process, by libcurl's multi interface (see `dyno.contracts.suite.InFlight`).

libcurl says which sockets to watch (`M_SOCKETFUNCTION`), and epoll reports which of them are ready, so ten thousand
idle sockets cost nothing. See the section MULTI_SOCKET in libcurl's documentation of libcurl-multi.
"""

from __future__ import annotations

import select
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any, NamedTuple

from dyno.suites._shared.digest import new_digest
from dyno.suites.http import curl
from dyno.suites.http.client import prepare_handle
from dyno.suites.http.options import Options
from dyno.suites.http.stages import Moments

if TYPE_CHECKING:
    from pycurl import Curl

AWAKE_NS = 200_000
"""Duration of the last part of a wait, which polls the clock because sleeps end late."""
LONGEST_SECONDS = 1.0
SELECTABLE = 1024
"""Limit of descriptors for select(), which accepts only lower ones."""
ERROR_FROM = 400
KEPT_BYTES = 16 << 10
"""Maximum size of bodies that are kept whole, and hashed while the clock stands still."""


class Response(NamedTuple):
    """Response with a status below 400."""

    status: int
    size: int
    digest: bytes | None
    """Digest of the body; None if `body` has the body itself."""
    body: bytes | None
    connects: int
    moments: Moments
    version: str
    """Version of HTTP."""
    redirects: int
    """Number of redirects that were followed."""


class RequestFailed(Exception):
    """Failure of a request, with libcurl's error number for its kind."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class StatusError(Exception):
    """Response with a status of 400 or more."""


class CurlRequester:
    """Requests in flight, as `dyno.contracts.suite.InFlight` defines them. An operation's argument is its URL, and
    its answer a Response. Those of subclasses have types of their own.

    `fresh`: each request uses a new connection with a complete TLS handshake. `keeps`: small bodies are kept.
    """

    def __init__(self, options: Options, places: int, fresh: bool, keeps: bool) -> None:
        c = self._c = curl.pycurl()
        self._epoll, self._watched = select.epoll(), dict[int, int]()
        """Events that epoll watches for, by descriptor."""
        self._wake: int | None = None
        """Moment at which libcurl must be called, even if no socket is ready."""
        self._running = 0
        self.codes = Counter[int]()
        self._multi = c.CurlMulti()
        self._multi.setopt(c.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(c.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(c.M_MAXCONNECTS, places)
        self._multi.setopt(c.M_PIPELINING, c.PIPE_MULTIPLEX)
        self._times = curl.times(c)
        self._versions = curl.versions(c)
        self._location = options.location
        self._handles = [self._handle(place, options, fresh, keeps) for place in range(places)]
        self._urls: list[str | None] = [None] * places

    def _handle(self, place: int, options: Options, fresh: bool, keeps: bool) -> Curl:
        c = self._c
        handle = curl.handle(options, len)
        handle.place = place
        handle.keeps = keeps
        handle.pieces = []
        if keeps:
            handle.setopt(c.WRITEFUNCTION, handle.pieces.append)
        else:
            # Receive fewer and larger pieces.
            handle.setopt(c.BUFFERSIZE, 512 << 10)
        handle.setopt(c.FRESH_CONNECT, int(fresh))
        handle.setopt(c.FORBID_REUSE, int(fresh))
        handle.setopt(c.SSL_SESSIONID_CACHE, int(not fresh))
        # With HTTP/2 and 3, a request waits for the connection of an earlier request and becomes a stream of it.
        handle.setopt(c.PIPEWAIT, int(not fresh and (options.http2 or options.http3_only)))
        handle.setopt(c.FOLLOWLOCATION, int(options.location))
        handle.setopt(c.MAXREDIRS, options.max_redirs)
        # libcurl copies the headers and the body, which all requests share.
        with prepare_handle(c, handle, options, ""):
            pass
        if options.max_time is not None:
            handle.setopt(c.TIMEOUT_MS, round(1e3 * options.max_time))
        return handle

    # -- see InFlight ---------------------------------------------------------------------------------------

    def begin(self, place: int, argument: object) -> None:
        handle = self._handles[place]
        self._ask(handle, argument)
        self._multi.add_handle(handle)
        self._running += 1

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Response | RequestFailed | StatusError]]:
        until = now() + wait_ns
        c = self._c
        while True:
            moment = now()
            running = self._running
            if self._wake is not None and self._wake <= moment:
                self._wake = None
                _, running = self._multi.socket_action(c.SOCKET_TIMEOUT, 0)
            for descriptor, events in self._wait_for_sockets(min(until, self._wake or until), running):
                bits = (
                    (c.CSELECT_IN if events & (select.EPOLLIN | select.EPOLLHUP) else 0)
                    | (c.CSELECT_OUT if events & select.EPOLLOUT else 0)
                    | (c.CSELECT_ERR if events & select.EPOLLERR else 0)
                )
                _, running = self._multi.socket_action(descriptor, bits)
            if running < self._running:
                return self._answers()
            if now() >= until:
                return ()

    def close(self) -> None:
        for handle in self._handles:
            handle.close()
        self._multi.close()
        self._epoll.close()

    # -- replaced by subclasses for other protocols over HTTP -------------------------------------------------

    def _ask(self, handle: Curl, argument: Any) -> None:
        """Prepares the handle for a request with that argument."""
        if self._urls[handle.place] is not argument:
            handle.setopt(self._c.URL, argument)
            self._urls[handle.place] = argument
        if not handle.keeps:
            handle.digest = new_digest()
            handle.setopt(self._c.WRITEFUNCTION, handle.digest.update)

    def _response(self, handle: Curl) -> Any:
        """Returns the answer of a request that ended without an error of libcurl."""
        c, get = self._c, handle.getinfo
        status = get(c.HTTP_CODE)
        self.codes[status] += 1
        body = digest = None
        if handle.keeps:
            body = b"".join(handle.pieces)
            handle.pieces.clear()
            size = len(body)
        else:
            digest, size = handle.digest.digest(), int(get(c.SIZE_DOWNLOAD_T))
        if status >= ERROR_FROM:
            return StatusError(f"HTTP {status}")
        moments, version = Moments(*map(get, self._times)), self._versions.get(get(c.INFO_HTTP_VERSION), "unknown")
        redirects = 0
        if self._location:
            redirects = get(c.REDIRECT_COUNT)
        return Response(status, size, digest, body, get(c.NUM_CONNECTS), moments, version, redirects)

    # -- the event loop -------------------------------------------------------------------------------------

    def _wait_for_sockets(self, until: int, running: int) -> list[tuple[int, int]]:
        """Returns the sockets that are ready. Waits for the first one until the moment `until`."""
        left = until - now()
        if running < self._running or left <= AWAKE_NS:
            return self._epoll.poll(0)
        if left > LONGEST_SECONDS * 1e9:
            return self._epoll.poll(LONGEST_SECONDS)
        if self._epoll.fileno() >= SELECTABLE:
            return self._epoll.poll((left - AWAKE_NS) / 1e9)
        # Use select, which waits with a resolution of 1 µs. The resolution of epoll is 1 ms.
        select.select([self._epoll], [], [], (left - AWAKE_NS) / 1e9)
        return self._epoll.poll(0)

    def _watch(self, events: int, descriptor: int, multi: object, data: object) -> None:
        """Watches a socket for events. libcurl calls this."""
        c, watched = self._c, self._watched.get(descriptor)
        if events == c.POLL_REMOVE:
            if self._watched.pop(descriptor, None) is not None:
                # The socket may already be closed.
                with suppress(OSError):
                    self._epoll.unregister(descriptor)
            return
        bits = (select.EPOLLIN if events & c.POLL_IN else 0) | (select.EPOLLOUT if events & c.POLL_OUT else 0)
        if watched is None:
            self._epoll.register(descriptor, bits)
        elif watched != bits:
            self._epoll.modify(descriptor, bits)
        self._watched[descriptor] = bits

    def _set_timer(self, timeout_ms: int) -> None:
        if timeout_ms < 0:
            self._wake = None
        else:
            self._wake = now() + timeout_ms * 1_000_000

    def _answers(self) -> list[tuple[int, Response | RequestFailed | StatusError]]:
        """Returns the places of the requests that have ended, with their answers."""
        answers = list[tuple[int, Response | RequestFailed | StatusError]]()
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                answers.append((handle.place, self._response(handle)))
                self._multi.remove_handle(handle)
            for handle, number, message in failed:
                answers.append((handle.place, RequestFailed(f"{message or 'failed'} (curl {number})", number)))
                handle.pieces.clear()
                self._multi.remove_handle(handle)
        self._running -= len(answers)
        return answers
