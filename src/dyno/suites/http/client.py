"""HTTP client that makes one request after the other, follows redirects itself, and records the times of each hop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter_ns, sleep
from typing import IO, TYPE_CHECKING, Any

from dyno.contracts.model import UsageError
from dyno.contracts.passwords import mask_password
from dyno.contracts.value_types import JsonObject
from dyno.suites.http import curl
from dyno.suites.http.options import CONNECT_SECONDS, Options, ascii_url, check_url, follow_redirect, percent_encoded
from dyno.suites.http.stages import COARSE, MICRO, STAGES, Moments, fine, stages

if TYPE_CHECKING:
    from types import ModuleType

    from pycurl import Curl

LOOK_SECONDS, NO_SOCKET_SECONDS = 0.2, 0.001
TRANSIENT = {6, 28, 408, 429, 500, 502, 503, 504}
"""Error numbers of libcurl, and statuses, after which --retry repeats the request."""
SLACK_US = 10_000
"""Largest accepted difference between libcurl's clock and this process's."""
MOMENTS = ("namelookup", "connect", "appconnect", "pretransfer", "posttransfer", "starttransfer")


@dataclass(frozen=True)
class Hop:
    """A single request of a chain of redirects, with its response or error."""

    url: str
    method: str
    at: Moments
    secure: bool
    fresh: bool
    """Whether the request made a new connection, or failed before it had a connection."""
    info: Mapping[str, Any]
    """Result of `curl.information`."""
    error: str | None = None
    exitcode: int = 0

    @property
    def stages_us(self) -> dict[str, float | None]:
        return stages(self.at, self.secure, self.fresh, self.exitcode != 0)


class Client:
    """Makes requests with the same options. Keeps its connections open for further requests until it is closed.

    `stopped` is called at least every LOOK_SECONDS during a request. If true, a KeyboardInterrupt ends it.
    """

    def __init__(self, options: Options, stopped: Callable[[], bool] = lambda: False) -> None:
        self._options, self._stopped = options, stopped
        self._c = curl.pycurl()
        self._output: IO[bytes] | None = None
        self._head_output: IO[bytes] | None = None
        self._write_error: OSError | None = None
        self._redirects = self._skips_body = False
        self._handle = curl.handle(options, self._write)
        if options.output is not None or options.dump_header is not None:
            self._handle.setopt(self._c.HEADERFUNCTION, self._write_head)
        # The multi handle owns the connections. It is used for single requests too, since `perform` of an easy handle
        # can't be interrupted during a TLS handshake.
        self._multi = self._c.CurlMulti()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()
        self._multi.close()

    def request(self, url: str, fresh: bool = False) -> JsonObject:
        """Makes a request, follows its redirects if the options say so, and returns its record.

        `fresh`: use a new connection. Raises UsageError for a malformed URL or an unusable file.
        """
        url, options = check_url(url), self._options
        for retries in count():
            with self._open_outputs(options.dump_header, options.output):
                result = summarize_hops(self._hops(url, fresh), options)
            if retries == options.retry or not TRANSIENT & {result["exitcode"], result["http_code"]}:
                break
            until = monotonic() + (result["retry_after"] or min(2.0**retries, 600.0))
            while (left := until - monotonic()) > 0 and not self._stopped():
                sleep(min(left, LOOK_SECONDS))
        if retries:
            result["doubts"].append(f"transient errors: this is attempt {retries + 1}")
        return result

    @contextmanager
    def _open_outputs(self, header: Path | None, body: Path | None) -> Iterator[None]:
        """Writes the heads and bodies of responses to files in the block; -: standard output. Raises UsageError."""
        try:
            with _open_output(header) as self._head_output, _open_output(body) as self._output:
                yield
                if self._write_error is not None:
                    raise self._write_error
        except OSError as error:
            raise UsageError(f"can't write {error.filename or body or header}: {error.strerror}") from None
        finally:
            self._head_output = self._output = self._write_error = None

    def _write_head(self, line: bytes) -> int:
        if line.startswith(b"HTTP/"):
            self._redirects, self._skips_body = self._options.location and b" 3" in line[:10], False
        self._skips_body |= self._redirects and line.lower().startswith(b"location:")
        shown = self._options.include or self._options.head
        return min(self._put(file, line) for file in (self._head_output, self._output if shown else None))

    def _write(self, piece: bytes) -> int:
        return self._put(None if self._skips_body else self._output, piece)

    def _put(self, file: IO[bytes] | None, piece: bytes) -> int:
        try:
            if file is None:
                return len(piece)
            return file.write(piece)
        except OSError as error:
            # Keep the error, since libcurl can't pass it on. libcurl ends the request because not all bytes were
            # written.
            self._write_error = error
            return 0

    def _hops(self, url: str, fresh: bool) -> list[Hop]:
        options, hops = self._options, list[Hop]()
        deadline = None
        if options.max_time is not None:
            deadline = monotonic() + options.max_time
        while True:
            left = None
            if deadline is not None:
                left = deadline - monotonic()
            hops.append(self._hop(url, options, left, fresh and not hops))
            target = hops[-1].info["redirect_url"]
            if hops[-1].error is not None or not target or not options.location:
                return hops
            if len(hops) > options.max_redirs:
                why = f"Maximum ({options.max_redirs}) redirects followed"
                hops[-1] = replace(hops[-1], error=why, exitcode=curl.TOO_MANY_REDIRECTS)
                return hops
            with suppress(ValueError):
                # libcurl will report the invalid host.
                target = ascii_url(target)
            options, url = follow_redirect(options, hops[-1].info["http_code"], url, target), target

    def _hop(self, url: str, options: Options, left: float | None, fresh: bool) -> Hop:
        c, handle = self._c, self._handle
        handle.setopt(c.FRESH_CONNECT, int(fresh))
        # libcurl takes 0 for no timeout.
        handle.setopt(c.TIMEOUT_MS, 0 if left is None else max(round(1e3 * left), 1))
        start = perf_counter_ns()
        with prepare_handle(c, handle, options, url):
            exitcode, error = self._perform()
        elapsed_us = (perf_counter_ns() - start) // 1_000
        at, info = curl.moments(handle), curl.information(handle)
        if at.total > elapsed_us + SLACK_US:
            # If a request ends before it begins, libcurl reports times since the machine's start.
            at = Moments(None, 0, 0, 0, 0, 0, elapsed_us)
        # For some moments that a failed request did not reach, libcurl reports the request's end.
        if exitcode and not info["request_size"]:
            at = at._replace(pretransfer=0, posttransfer=0)
        if exitcode and not info["header_size"] and not info["size_download"]:
            at = at._replace(starttransfer=0)
        if exitcode == curl.COULD_NOT_CONNECT:
            # If the connection is refused, libcurl doesn't report the duration of the lookup.
            at = at._replace(namelookup=at.namelookup or None)
        new = info["num_connects"] > 0 or not at.pretransfer
        return Hop(url, options.method, at, url.lower().startswith("https:"), new, info, error, exitcode)

    def _perform(self) -> tuple[int, str | None]:
        """Makes the request that the handle is prepared for.

        Returns libcurl's error number and message, or 0 and None if the request succeeded. Raises KeyboardInterrupt.
        """
        self._multi.add_handle(self._handle)
        try:
            while True:
                self._multi.perform()
                _, succeeded, failed = self._multi.info_read()
                if succeeded:
                    return 0, None
                for _, number, message in failed:
                    return number, mask_password(" ".join(str(message).split()) or f"libcurl's error {number}")
                if self._stopped():
                    raise KeyboardInterrupt
                # Wait until libcurl has something to do, but at most LOOK_SECONDS.
                timeout_ms = self._multi.timeout()
                seconds = LOOK_SECONDS
                if timeout_ms >= 0:
                    seconds = min(timeout_ms / 1e3, LOOK_SECONDS)
                with suppress(self._c.error):
                    # select returns at once if there is no socket. A signal interrupts it.
                    if self._multi.select(seconds) < 0:
                        sleep(min(seconds, NO_SOCKET_SECONDS))
        finally:
            self._multi.remove_handle(self._handle)


def _open_output(path: Path | None) -> AbstractContextManager[IO[bytes] | None]:
    if path and str(path) != "-":
        return path.open("wb")
    return nullcontext(sys.stdout.buffer if path else None)


@contextmanager
def prepare_handle(c: ModuleType, handle: Curl, options: Options, url: str) -> Iterator[None]:
    """Prepares a handle, which may have been used before, for a request. Raises UsageError for an unreadable file."""
    data: bytes | None = curl.encode_value(options.data)
    handle.unsetopt(c.CUSTOMREQUEST)
    handle.setopt(c.HTTPGET, 1)
    # Unset the headers: an empty list would keep those of the previous request.
    handle.unsetopt(c.HTTPHEADER)
    if options.header:
        handle.setopt(c.HTTPHEADER, curl.encode_value(list(options.header)))
    if options.get and data is not None:
        url += ("&" if "?" in url else "?") + percent_encoded(data)
    elif data is not None:
        handle.setopt(c.POST, 1)
        handle.setopt(c.POSTFIELDSIZE_LARGE, len(data))
        handle.setopt(c.COPYPOSTFIELDS, data)
    if options.form:
        handle.setopt(c.HTTPPOST, list(map(curl.form_part, options.form)))
    file: IO[bytes] | None = None
    if options.upload_file is not None:
        try:
            file = options.upload_file.open("rb")
        except OSError as error:
            raise UsageError(f"can't read {options.upload_file}: {error.strerror}") from None
        handle.setopt(c.UPLOAD, 1)
        handle.setopt(c.READDATA, file)
        handle.setopt(c.INFILESIZE_LARGE, options.upload_file.stat().st_size)
    with nullcontext() if file is None else file:
        if options.head:
            handle.setopt(c.NOBODY, 1)
        if options.request is not None:
            handle.setopt(c.CUSTOMREQUEST, curl.encode_value(options.request))
        cookie = ";".join(text for text in options.cookie if "=" in text) or None
        for option, value in ((c.USERPWD, options.user), (c.COOKIE, cookie)):
            if value is None:
                handle.unsetopt(option)
            else:
                handle.setopt(option, curl.encode_value(value))
        handle.setopt(c.URL, curl.encode_value(url))
        yield


# -- records --------------------------------------------------------------------------------------------------


def summarize_hops(hops: Sequence[Hop], options: Options) -> JsonObject:
    """Returns the record of a request: the fields of its last hop, by curl's names, with the times of all hops added
    up.

    Times are in seconds, sizes in bytes. A value that is unknown, or of a stage that did not happen, is None rather
    than 0 or -1. Like curl, a moment of a request with redirects is the sum of the hops' moments.
    """
    last, stages_us = hops[-1], [hop.stages_us for hop in hops]
    total = sum(hop.at.total for hop in hops) / MICRO
    known = {name: [us for part in stages_us if (us := part[name]) is not None] for name in STAGES}
    moments: dict[str, float | None] = {}
    for name in MOMENTS:
        connecting = name in ("namelookup", "connect", "appconnect")
        counted = [hop for hop in hops if (hop.fresh or not connecting) and (hop.secure or name != "appconnect")]
        reached = [us for hop in counted if (us := getattr(hop.at, name))]
        if reached:
            moments[f"{name}_time"] = sum(reached) / MICRO
        else:
            moments[f"{name}_time"] = None
    fields: dict[str, object] = {
        **last.info,
        "method": last.method,
        "scheme": "https" if last.secure else "http",
        "compressed": options.compressed,
        "connect_timeout": options.connect_timeout or CONNECT_SECONDS,
        "max_time": options.max_time,
        "error": last.error,
        "exitcode": last.exitcode,
        **{name: sum(hop.info[name] for hop in hops) for name in ("header_size", "num_connects", "request_size")},
        "redirect_count": len(hops) - 1,
        "redirect_time": sum(hop.at.total for hop in hops[:-1]) / MICRO if len(hops) > 1 else None,
        "redirect_url": last.info["redirect_url"] and mask_password(last.info["redirect_url"]),
        "ssl_verifyresult": last.info["ssl_verifyresult"] if last.secure else None,
        **moments,
        "total_time": total,
        **{f"speed_{way}": last.info[f"size_{way}"] / total if total else None for way in ("download", "upload")},
        "stages": _seconds({name: sum(values) if values else None for name, values in known.items()}),
        "hops": [
            {
                "url": mask_password(hop.url),
                "method": hop.method,
                **{name: hop.info[name] for name in ("http_code", "http_version", "primary_ip", "primary_port")},
                "reused": not hop.fresh,
                "total_time": hop.at.total / MICRO,
                "stages": _seconds(hop.stages_us),
            }
            for hop in hops
        ],
        "doubts": [f"{COARSE}: {', '.join(short)}"] if (short := fine(stages_us)) else [],
    }
    return dict(sorted(fields.items()))


def _seconds(us: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else value / MICRO for name, value in us.items()}
