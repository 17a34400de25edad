"""libcurl by pycurl: a handle that is set as the options say, and what it tells. Loaded when a request is made.

No redirect is followed by libcurl itself: see `redirects`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value
from dyno.host import installation
from dyno.http.encoding import ascii_url, raw
from dyno.http.options import CONNECT_SECONDS, Options
from dyno.http.stages import Moments
from dyno.text.passwords import mask_password

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems have their certificates: pycurl's wheels bring a libcurl that does not know."""
TOO_MANY_REDIRECTS = 47
"""libcurl's own number for it."""
HTTP_VERSIONS = {10: "1.0", 11: "1.1", 20: "2", 30: "3"}


def pycurl() -> ModuleType:
    """Raises UsageError with the command that installs it."""
    try:
        import pycurl as module
    except ImportError:
        raise UsageError(f"requests need pycurl: {installation.extra('http')}") from None
    found: ModuleType = module
    return found


def versions() -> dict[int, str]:
    """libcurl's constants for versions of HTTP, as curl writes them."""
    c = pycurl()
    return {
        c.CURL_HTTP_VERSION_1_0: "1.0",
        c.CURL_HTTP_VERSION_1_1: "1.1",
        c.CURL_HTTP_VERSION_2_0: "2",
        c.CURL_HTTP_VERSION_3: "3",
    }


def certificates() -> str | None:
    """The file of this machine's certificates: what curl's own variables name, or where systems keep it."""
    import ssl

    named = [os.environ.get(name, "") for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE")]
    usual = ssl.get_default_verify_paths().cafile or ""
    return next((path for path in (*named, usual, *BUNDLES) if path and Path(path).is_file()), None)


def handle(options: Options, take: Callable[[bytes], object]) -> Any:
    """A handle for such requests. `take` is given the body, piece by piece."""
    c = pycurl()
    made = c.Curl()
    made.setopt(c.NOSIGNAL, 1)
    made.setopt(c.PROTOCOLS, c.PROTO_HTTP | c.PROTO_HTTPS)
    made.setopt(c.FOLLOWLOCATION, 0)
    made.setopt(c.WRITEFUNCTION, take)
    made.setopt(c.TCP_NODELAY, 1)
    # A name is resolved for every connection.
    made.setopt(c.DNS_CACHE_TIMEOUT, 0)
    made.setopt(c.CONNECTTIMEOUT_MS, round(1e3 * (options.connect_timeout or CONNECT_SECONDS)))
    made.setopt(c.USERAGENT, raw(options.user_agent or f"dyno {c.version.split()[1]}"))
    for name, value in _texts(c, options):
        if value not in (None, False, ()):
            made.setopt(name, raw(value))
    _choose(c, made, options)
    _secure(c, made, options)
    return made


def _texts(c: ModuleType, options: Options) -> list[tuple[int, Any]]:
    """Those that libcurl takes as they are."""
    return [
        (c.REFERER, options.referer),
        (c.RANGE, options.range),
        (c.PROXY, options.proxy and _proxy(options.proxy)),
        (c.NOPROXY, options.noproxy),
        (c.INTERFACE, options.interface),
        (c.RESOLVE, list(options.resolve) or None),
        (c.CONNECT_TO, list(options.connect_to) or None),
        (c.UNIX_SOCKET_PATH, options.unix_socket),
        (c.MAXFILESIZE_LARGE, options.max_filesize),
        (c.MAX_RECV_SPEED_LARGE, options.limit_rate),
        (c.FAILONERROR, options.fail and 1),
    ]


def _proxy(url: str) -> str:
    try:
        return ascii_url(url)
    except ValueError as error:
        raise UsageError(f"--proxy {format_value(mask_password(url))} is no address: {error}") from None


def _choose(c: ModuleType, made: Any, options: Options) -> None:
    family = c.IPRESOLVE_V4 if options.ipv4 else c.IPRESOLVE_V6 if options.ipv6 else c.IPRESOLVE_WHATEVER
    made.setopt(c.IPRESOLVE, family)
    if options.compressed:
        made.setopt(c.ACCEPT_ENCODING, "")
    wanted = {
        "http1_0": c.CURL_HTTP_VERSION_1_0,
        "http1_1": c.CURL_HTTP_VERSION_1_1,
        "http2": c.CURL_HTTP_VERSION_2_0,
        "http2_prior_knowledge": c.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
        "http3": c.CURL_HTTP_VERSION_3,
        "http3_only": c.CURL_HTTP_VERSION_3ONLY,
    }
    for name, constant in wanted.items():
        if getattr(options, name):
            try:
                made.setopt(c.HTTP_VERSION, constant)
            except c.error:
                raise UsageError(f"this libcurl has no {name.split('_')[0]}: {c.version}") from None


def _secure(c: ModuleType, made: Any, options: Options) -> None:
    made.setopt(c.SSL_VERIFYPEER, 0 if options.insecure else 1)
    made.setopt(c.SSL_VERIFYHOST, 0 if options.insecure else 2)
    if (bundle := options.cacert or certificates()) is not None:
        made.setopt(c.CAINFO, os.fsencode(bundle))
    if options.cert is not None:
        made.setopt(c.SSLCERT, os.fsencode(options.cert))
    if options.key is not None:
        made.setopt(c.SSLKEY, os.fsencode(options.key))
    if options.tlsv1_3 or options.tlsv1_2:
        made.setopt(c.SSLVERSION, c.SSLVERSION_TLSv1_3 if options.tlsv1_3 else c.SSLVERSION_TLSv1_2)


def moments(made: Any) -> Moments:
    """Of its last request, by libcurl's own clock."""
    c, told = pycurl(), made.getinfo
    pretransfer = told(c.PRETRANSFER_TIME_T)
    # Since libcurl 8.10.
    sent = getattr(c, "POSTTRANSFER_TIME_T", None)
    return Moments(
        told(c.NAMELOOKUP_TIME_T),
        told(c.CONNECT_TIME_T),
        told(c.APPCONNECT_TIME_T),
        pretransfer,
        pretransfer if sent is None else told(sent),
        told(c.STARTTRANSFER_TIME_T),
        told(c.TOTAL_TIME_T),
    )
