"""Makes requests, one after the other, each redirect as a hop of its own. Nothing is worked out of the times here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, perf_counter_ns, sleep
from typing import IO, Any

from dyno.contracts.model import UsageError
from dyno.http import curl
from dyno.http.encoding import ascii_url, percent_encoded, raw
from dyno.http.options import Options, checked
from dyno.http.record import Hop, told, whole
from dyno.http.redirects import after
from dyno.http.stages import Moments
from dyno.text.passwords import mask_password

NOT_CONNECTED = 7
"""libcurl's own number for it."""
LOOK_SECONDS, NO_SOCKET_SECONDS = 0.2, 0.001
SLACK = 10_000
"""In µs: by as much libcurl's clock may differ from this process's."""


class Client:
    """Requests with the same options. Its connections are kept from one to the next, and closed with it.

    `stopped` is called at least every LOOK_SECONDS during a request; if it returns true, a KeyboardInterrupt ends
    the request.
    """

    def __init__(self, options: Options, stopped: Callable[[], bool] = lambda: False) -> None:
        self._options, self._stopped = options, stopped
        self._c = curl.pycurl()
        self._versions = curl.versions()
        self._output: IO[bytes] | None = None
        self._unwritten: OSError | None = None
        self._handle = curl.handle(options, self._take)
        # It keeps the connections. The handle's own `perform` can't be interrupted during a TLS handshake.
        self._multi = self._c.CurlMulti()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()
        self._multi.close()

    def request(self, url: str, fresh: bool = False) -> dict[str, Any]:
        """One request, with its redirects where they are to be followed. `fresh`: on a new connection.

        Raises UsageError for what is no address, and for a file that can't be written.
        """
        url = checked(url)
        with self._kept(self._options.output):
            return whole(self._hops(url, fresh), self._options)

    @contextmanager
    def _kept(self, path: Path | None) -> Iterator[None]:
        """Where the body goes. Raises UsageError where it can't be written there."""
        if path is None:
            yield
            return
        try:
            with path.open("wb") as self._output:
                yield
                if self._unwritten is not None:
                    raise self._unwritten
        except OSError as error:
            raise UsageError(f"can't write {path}: {error.strerror}") from None
        finally:
            self._output = self._unwritten = None

    def _hops(self, url: str, fresh: bool) -> list[Hop]:
        options, hops = self._options, list[Hop]()
        deadline = None if options.max_time is None else monotonic() + options.max_time
        while True:
            left = None if deadline is None else deadline - monotonic()
            if self._output is not None and hops and self._output.seekable() and self._output.tell():
                # The body of a redirect is not what was asked for. A device keeps none.
                self._output.seek(0)
                self._output.truncate()
            hops.append(self._hop(url, options, left, fresh and not hops))
            there = hops[-1].told["redirect_url"]
            if hops[-1].error is not None or not there or not options.location:
                return hops
            if len(hops) > options.max_redirs:
                hops[-1] = _too_many(hops[-1], options)
                return hops
            with suppress(ValueError):
                # If it is no host name, libcurl says so.
                there = ascii_url(there)
            options, url = after(options, hops[-1].told["http_code"], url, there), there

    def _hop(self, url: str, options: Options, left: float | None, fresh: bool) -> Hop:
        c, made = self._c, self._handle
        made.setopt(c.FRESH_CONNECT, int(fresh))
        # 0 would be for ever.
        made.setopt(c.TIMEOUT_MS, 0 if left is None else max(round(1e3 * left), 1))
        began = perf_counter_ns()
        with _sent(c, made, options, url):
            exitcode, error = self._performed()
        took = (perf_counter_ns() - began) // 1_000
        at, about = curl.moments(made), told(c, made, self._versions)
        if at.total > took + SLACK:
            # It ended before it began: libcurl tells its times from the machine's start, then.
            at = Moments(None, 0, 0, 0, 0, 0, took)
        if exitcode:
            at = _reached(at, exitcode, about)
        # What failed before it had a connection made none.
        new = about["num_connects"] > 0 or not at.pretransfer
        secure = url.lower().startswith("https:")
        return Hop(url, options.method, at, secure, new, about, error, exitcode)

    def _performed(self) -> tuple[int, str | None]:
        """Makes the request that the handle is set to. Returns libcurl's error number and message; 0 and None if it
        succeeded. Raises KeyboardInterrupt."""
        self._multi.add_handle(self._handle)
        try:
            while True:
                self._multi.perform()
                _, succeeded, failed = self._multi.info_read()
                if succeeded:
                    return 0, None
                for _, number, why in failed:
                    return number, mask_password(" ".join(str(why).split()) or f"libcurl's error {number}")
                if self._stopped():
                    raise KeyboardInterrupt
                self._wait()
        finally:
            self._multi.remove_handle(self._handle)

    def _wait(self) -> None:
        """Returns when libcurl has something to do, and after LOOK_SECONDS at the latest."""
        timeout_ms = self._multi.timeout()
        seconds = LOOK_SECONDS if timeout_ms < 0 else min(timeout_ms / 1e3, LOOK_SECONDS)
        with suppress(self._c.error):
            # A signal interrupts it; without a socket, it returns at once.
            if self._multi.select(seconds) < 0:
                sleep(min(seconds, NO_SOCKET_SECONDS))

    def _take(self, piece: bytes) -> int:
        if self._output is None:
            return len(piece)
        try:
            return self._output.write(piece)
        except OSError as error:
            # libcurl has no way to hand it on: it ends the request, as not all was taken.
            self._unwritten = error
            return 0


class _sent:
    """What is to be sent, on a handle that is used again: of the request before nothing is left."""

    def __init__(self, c: Any, made: Any, options: Options, url: str) -> None:
        self._file: IO[bytes] | None = None
        data: bytes | None = raw(options.data)
        made.unsetopt(c.CUSTOMREQUEST)
        made.setopt(c.HTTPGET, 1)
        # An empty list would leave the headers of the request before.
        made.unsetopt(c.HTTPHEADER)
        if options.header:
            made.setopt(c.HTTPHEADER, raw(list(options.header)))
        if options.get and data is not None:
            url += ("&" if "?" in url else "?") + percent_encoded(data)
        elif data is not None:
            made.setopt(c.POST, 1)
            made.setopt(c.POSTFIELDSIZE_LARGE, len(data))
            made.setopt(c.COPYPOSTFIELDS, data)
        if options.upload_file is not None:
            try:
                self._file = options.upload_file.open("rb")
            except OSError as error:
                raise UsageError(f"can't read {options.upload_file}: {error.strerror}") from None
            made.setopt(c.UPLOAD, 1)
            made.setopt(c.READDATA, self._file)
            made.setopt(c.INFILESIZE_LARGE, options.upload_file.stat().st_size)
        if options.head:
            made.setopt(c.NOBODY, 1)
        if options.request is not None:
            made.setopt(c.CUSTOMREQUEST, raw(options.request))
        for option, value in ((c.USERPWD, options.user), (c.COOKIE, options.cookie)):
            if value is None:
                made.unsetopt(option)
            else:
                made.setopt(option, raw(value))
        made.setopt(c.URL, raw(url))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


def _reached(at: Moments, exitcode: int, about: Mapping[str, Any]) -> Moments:
    """The moments of a request that failed: libcurl tells when it ended for some that it did not come to."""
    if not about["request_size"]:
        at = at._replace(pretransfer=0, posttransfer=0)
    if not about["header_size"] and not about["size_download"]:
        at = at._replace(starttransfer=0)
    # Where nobody listens, it does not tell how long the name took.
    return at._replace(namelookup=at.namelookup or None) if exitcode == NOT_CONNECTED else at


def _too_many(hop: Hop, options: Options) -> Hop:
    why = f"Maximum ({options.max_redirs}) redirects followed"
    return Hop(hop.url, hop.method, hop.at, hop.secure, hop.fresh, hop.told, why, curl.TOO_MANY_REDIRECTS)
