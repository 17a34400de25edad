"""Many requests under way at once in one process, by libcurl's multi interface: see `dyno.contracts.suite.InFlight`.

Which sockets are ready is told by epoll, as libcurl asks for it (`M_SOCKETFUNCTION`): ten thousand of them cost no
more than those of them that have something to say. libcurl's documentation, "libcurl-multi", section MULTI_SOCKET.
"""

from __future__ import annotations

import hashlib
import select
from collections import Counter
from collections.abc import Sequence
from time import perf_counter_ns as now
from typing import Any, NamedTuple

from dyno.http import curl
from dyno.http.options import Options

AWAKE_NS = 200_000
"""A sleep wakes late: for so long before a moment one looks at the clock."""
LONGEST_SECONDS = 1.0
SELECTABLE = 1024
"""No descriptor from here on may be given to select()."""
ERROR_FROM = 400
KEPT_BYTES = 16 << 10
"""A body that is expected to be no larger is kept, and looked at when the clock stands still."""
DIGEST = hashlib.sha256


class Response(NamedTuple):
    """What a request was answered, and when: the moments of `dyno.http.stages.Moments`, in µs."""

    status: int
    size: int
    digest: bytes | None
    """Of the body, where it was not kept."""
    body: bytes | None
    connects: int
    moments: tuple[int, int, int, int, int, int, int]


class RequestFailed(Exception):
    """libcurl's message and error number."""

    def __init__(self, why: str, number: int) -> None:
        super().__init__(f"{why} (curl {number})")
        self.number = number


class StatusError(Exception):
    """A status of 400 or more."""


class Way:
    """See `dyno.contracts.suite.InFlight`; an argument is an address. `fresh`: each request has a connection of its
    own, and a whole TLS handshake. `keeps`: bodies are small, and kept."""

    def __init__(self, options: Options, places: int, fresh: bool, keeps: bool) -> None:
        c = self._c = curl.pycurl()
        self._epoll, self._known = select.epoll(), dict[int, int]()
        self._wake: int | None = None
        self._running = 0
        self.codes = Counter[int]()
        self._multi = c.CurlMulti()
        self._multi.setopt(c.M_SOCKETFUNCTION, self._socket)
        self._multi.setopt(c.M_TIMERFUNCTION, self._timer)
        self._multi.setopt(c.M_MAXCONNECTS, places)
        self._multi.setopt(c.M_PIPELINING, c.PIPE_MULTIPLEX)
        self._times = (
            c.NAMELOOKUP_TIME_T,
            c.CONNECT_TIME_T,
            c.APPCONNECT_TIME_T,
            c.PRETRANSFER_TIME_T,
            getattr(c, "POSTTRANSFER_TIME_T", c.PRETRANSFER_TIME_T),
            c.STARTTRANSFER_TIME_T,
            c.TOTAL_TIME_T,
        )
        self._handles = [self._made(place, options, fresh, keeps) for place in range(places)]
        self._urls: list[Any] = [None] * places

    def _made(self, place: int, options: Options, fresh: bool, keeps: bool) -> Any:
        c = self._c
        made = curl.handle(options, len)
        made.place, made.keeps, made.pieces = place, keeps, []
        if keeps:
            made.setopt(c.WRITEFUNCTION, made.pieces.append)
        else:
            # Fewer and larger pieces.
            made.setopt(c.BUFFERSIZE, 512 << 10)
        made.setopt(c.FRESH_CONNECT, int(fresh))
        made.setopt(c.FORBID_REUSE, int(fresh))
        made.setopt(c.SSL_SESSIONID_CACHE, int(not fresh))
        # A second stream waits for the first one's connection, where there can be streams.
        made.setopt(c.PIPEWAIT, int(not fresh and (options.http2 or options.http3)))
        if options.max_time is not None:
            made.setopt(c.TIMEOUT_MS, round(1e3 * options.max_time))
        return made

    # -- see UnderWay ---------------------------------------------------------------------------------------

    def begin(self, place: int, argument: Any) -> None:
        handle = self._handles[place]
        self._ask(handle, argument)
        self._multi.add_handle(handle)
        self._running += 1

    def ended(self, wait_ns: int) -> Sequence[tuple[int, Any]]:
        until = now() + wait_ns
        timeout = self._c.SOCKET_TIMEOUT
        while True:
            moment = now()
            running = self._running
            if self._wake is not None and self._wake <= moment:
                self._wake = None
                _, running = self._multi.socket_action(timeout, 0)
            for descriptor, events in self._ready(min(until, self._wake or until), running):
                _, running = self._multi.socket_action(descriptor, _events(events))
            if running < self._running:
                return self._told()
            if now() >= until:
                return ()

    def close(self) -> None:
        for handle in self._handles:
            handle.close()
        self._multi.close()
        self._epoll.close()

    # -- what another protocol over HTTP has in another way ---------------------------------------------------

    def _ask(self, handle: Any, argument: Any) -> None:
        """Has the handle make that request."""
        if self._urls[handle.place] is not argument:
            handle.setopt(self._c.URL, argument)
            self._urls[handle.place] = argument
        if not handle.keeps:
            handle.digest = DIGEST()
            handle.setopt(self._c.WRITEFUNCTION, handle.digest.update)

    # -- the event loop -------------------------------------------------------------------------------------

    def _ready(self, until: int, running: int) -> list[tuple[int, int]]:
        """The sockets that have something to say; waits for the first of them until then, at the longest."""
        if running < self._running:
            return self._epoll.poll(0)
        left = until - now()
        if left > LONGEST_SECONDS * 1e9:
            return self._epoll.poll(LONGEST_SECONDS)
        if left <= AWAKE_NS:
            return self._epoll.poll(0)
        if self._epoll.fileno() >= SELECTABLE:
            return self._epoll.poll((left - AWAKE_NS) / 1e9)
        # To the µs, where epoll waits whole ms.
        select.select([self._epoll], [], [], (left - AWAKE_NS) / 1e9)
        return self._epoll.poll(0)

    def _socket(self, what: int, descriptor: int, multi: Any, data: Any) -> None:
        """libcurl says what it wants to be told of a socket."""
        c = self._c
        if what == c.POLL_REMOVE:
            if self._known.pop(descriptor, None) is not None:
                try:
                    self._epoll.unregister(descriptor)
                except OSError:
                    # It is closed.
                    pass
            return
        wanted = (select.EPOLLIN if what & c.POLL_IN else 0) | (select.EPOLLOUT if what & c.POLL_OUT else 0)
        known = self._known.get(descriptor)
        if known is None:
            self._epoll.register(descriptor, wanted)
        elif known != wanted:
            self._epoll.modify(descriptor, wanted)
        self._known[descriptor] = wanted

    def _timer(self, timeout_ms: int) -> None:
        """libcurl says when it wants to be called, whatever the sockets say."""
        self._wake = None if timeout_ms < 0 else now() + timeout_ms * 1_000_000

    def _told(self) -> list[tuple[int, Any]]:
        found = list[tuple[int, Any]]()
        left = 1
        while left:
            left, good, bad = self._multi.info_read()
            for handle in good:
                found.append((handle.place, self._response(handle)))
                self._multi.remove_handle(handle)
            for handle, number, why in bad:
                found.append((handle.place, RequestFailed(why or "failed", number)))
                handle.pieces.clear()
                self._multi.remove_handle(handle)
        self._running -= len(found)
        return found

    def _response(self, handle: Any) -> Any:
        c, told = self._c, handle.getinfo
        status = told(c.HTTP_CODE)
        self.codes[status] += 1
        body = digest = None
        if handle.keeps:
            body = b"".join(handle.pieces)
            handle.pieces.clear()
            size = len(body)
        else:
            digest, size = handle.digest.digest(), int(told(c.SIZE_DOWNLOAD_T))
        if status >= ERROR_FROM:
            return StatusError(f"HTTP {status}")
        times = tuple(map(told, self._times))
        return Response(status, size, digest, body, told(c.NUM_CONNECTS), times)


def _events(ready: int) -> int:
    """epoll's word for what is ready, as libcurl's."""
    c = curl.pycurl()
    return (
        (c.CSELECT_IN if ready & (select.EPOLLIN | select.EPOLLHUP) else 0)
        | (c.CSELECT_OUT if ready & select.EPOLLOUT else 0)
        | (c.CSELECT_ERR if ready & select.EPOLLERR else 0)
    )
