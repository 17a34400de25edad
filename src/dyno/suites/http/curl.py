"""Handles of libcurl (by pycurl) with the options of a request, and the information that they report about it.

libcurl itself follows no redirects: see `dyno.suites.http.client`. pycurl is imported by the first request.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dyno.contracts.model import UsageError
from dyno.contracts.passwords import mask_password
from dyno.contracts.safe_read import MIB, open_regular_file
from dyno.contracts.settings import format_value
from dyno.host import installation
from dyno.suites.http.options import CONNECT_SECONDS, Options, ascii_url
from dyno.suites.http.stages import Moments

if TYPE_CHECKING:
    from pycurl import Curl

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Usual paths of a system's certificates, which the libcurl in pycurl's wheels doesn't know."""
_FORM = re.compile(r'([^=]*)=(?:([@<])([^;,"]+)|(?![@<()"])([^;]*))((?:;(?:type|filename)=[^;"]*)*)', re.DOTALL)
MOST_DATA = 256 * MIB
COULD_NOT_CONNECT, TOO_MANY_REDIRECTS = 7, 47
"""Error numbers of libcurl."""


def pycurl() -> ModuleType:
    """Imports pycurl. Raises UsageError with the command that installs it."""
    try:
        import pycurl as module
    except ImportError:
        raise UsageError(f"requests need pycurl: {installation.extra_command('http')}") from None
    imported: ModuleType = module
    return imported


def certificates() -> str | None:
    """Returns the path of this machine's certificates: the file that curl's variables name, or else the system's."""
    import ssl

    named = [os.environ.get(name, "") for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE")]
    usual = ssl.get_default_verify_paths().cafile or ""
    return next((path for path in (*named, usual, *BUNDLES) if path and Path(path).is_file()), None)


def handle(options: Options, write: Callable[[bytes], object]) -> Curl:
    """Returns a handle for requests with these options. libcurl calls `write` with each piece of a body."""
    c = pycurl()
    tls = None
    if options.tlsv1_2:
        tls = c.SSLVERSION_TLSv1_2
    if options.tlsv1_3:
        tls = c.SSLVERSION_TLSv1_3
    family = c.IPRESOLVE_WHATEVER
    if options.ipv6:
        family = c.IPRESOLVE_V6
    if options.ipv4:
        family = c.IPRESOLVE_V4
    settings = (
        (c.NOSIGNAL, 1),
        (c.PROTOCOLS, c.PROTO_HTTP | c.PROTO_HTTPS),
        (c.FOLLOWLOCATION, 0),
        (c.WRITEFUNCTION, write),
        (c.TCP_NODELAY, 1),
        # Resolve the name again for each connection.
        (c.DNS_CACHE_TIMEOUT, 0),
        (c.CONNECTTIMEOUT_MS, round(1e3 * (options.connect_timeout or CONNECT_SECONDS))),
        (c.USERAGENT, f"dyno {c.version.split()[1]}" if options.user_agent is None else options.user_agent),
        (c.REFERER, options.referer),
        (c.RANGE, options.range),
        (c.PROXY, options.proxy and _proxy(options.proxy)),
        (c.NOPROXY, options.noproxy),
        (c.INTERFACE, options.interface),
        (c.RESOLVE, list(options.resolve) or None),
        (c.CONNECT_TO, list(options.connect_to) or None),
        (c.UNIX_SOCKET_PATH, options.unix_socket),
        (c.MAXFILESIZE_LARGE, options.max_filesize or None),
        (c.MAX_RECV_SPEED_LARGE, options.limit_rate or None),
        (c.MAX_SEND_SPEED_LARGE, options.limit_rate or None),
        *((c.COOKIEFILE, text) for text in options.cookie if "=" not in text),
        (c.COOKIEJAR, options.cookie_jar),
        (c.VERBOSE, int(options.verbose)),
        (c.HTTPAUTH, c.HTTPAUTH_DIGEST if options.digest else None),
        (c.FAILONERROR, int(options.fail)),
        (c.IPRESOLVE, family),
        (c.ACCEPT_ENCODING, "" if options.compressed else None),
        (c.SSL_VERIFYPEER, 0 if options.insecure else 1),
        (c.SSL_VERIFYHOST, 0 if options.insecure else 2),
        (c.CAINFO, options.cacert or certificates()),
        (c.SSLCERT, options.cert),
        (c.SSLKEY, options.key),
        (c.SSLVERSION, tls),
    )
    handle = c.Curl()
    for option, value in settings:
        if value is not None:
            handle.setopt(option, encode_value(value))
    _set_http_version(handle, options)
    return handle


def _set_http_version(handle: Curl, options: Options) -> None:
    """Raises UsageError if this libcurl lacks the version that the options name."""
    c = pycurl()
    flags = {
        "http1_0": c.CURL_HTTP_VERSION_1_0,
        "http1_1": c.CURL_HTTP_VERSION_1_1,
        "http2": c.CURL_HTTP_VERSION_2_0,
        "http2_prior_knowledge": c.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
        "http3": c.CURL_HTTP_VERSION_3,
        "http3_only": c.CURL_HTTP_VERSION_3ONLY,
    }
    for name, constant in flags.items():
        if getattr(options, name):
            try:
                handle.setopt(c.HTTP_VERSION, constant)
            except c.error:
                raise UsageError(f"this libcurl has no {name.split('_')[0]}: {c.version}") from None


def form_part(text: str) -> tuple[object, object]:
    """Returns pycurl's form of a value of --form. Raises UsageError for a syntax of curl that is not supported."""
    c, match = pycurl(), _FORM.fullmatch(text)
    if match is None or match[3] == "-":
        # The value may be a secret.
        field = text.partition("=")[0]
        raise UsageError(f"--form {field}: expected NAME=VALUE, NAME=@FILE or NAME=<FILE, then ;type= or ;filename=")
    name, mark, path, value, attributes = match.groups()
    if mark == "@":
        part = [c.FORM_FILE, path]
    else:
        part = [c.FORM_CONTENTS, read(path) if mark else value]
    for key, setting in re.findall(r";(\w+)=([^;]*)", attributes):
        part += [c.FORM_CONTENTTYPE if key == "type" else c.FORM_FILENAME, setting]
    return encode_value(name), tuple(map(encode_value, part))


def read(path: str) -> bytes:
    """Returns the content of a file; -: of standard input. Raises UsageError."""
    if path == "-":
        return sys.stdin.buffer.read()
    with open_regular_file(Path(path), MOST_DATA) as file:
        return file.read()


def _proxy(url: str) -> str:
    try:
        return ascii_url(url)
    except ValueError as error:
        raise UsageError(f"--proxy {format_value(mask_password(url))} is no address: {error}") from None


def encode_value(value: Any) -> Any:
    """Encodes a value for libcurl.

    Text becomes UTF-8 (or the bytes of the command line), paths become the system's bytes. Lists are encoded by item.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, Path):
        return os.fsencode(value)
    if isinstance(value, list):
        return [encode_value(item) for item in value]
    return value


# -- what a handle reports about its last request ---------------------------------------------------------------


def times(c: ModuleType) -> tuple[int, ...]:
    """Returns libcurl's constants for the fields of `Moments`, in the same order.

    POSTTRANSFER exists since libcurl 8.10.
    """
    return (
        c.NAMELOOKUP_TIME_T,
        c.CONNECT_TIME_T,
        c.APPCONNECT_TIME_T,
        c.PRETRANSFER_TIME_T,
        getattr(c, "POSTTRANSFER_TIME_T", c.PRETRANSFER_TIME_T),
        c.STARTTRANSFER_TIME_T,
        c.TOTAL_TIME_T,
    )


def moments(handle: Curl) -> Moments:
    return Moments(*map(handle.getinfo, times(pycurl())))


def versions(c: ModuleType) -> dict[int, str]:
    """Returns the versions of HTTP by libcurl's numbers."""
    return {
        c.CURL_HTTP_VERSION_1_0: "1.0",
        c.CURL_HTTP_VERSION_1_1: "1.1",
        c.CURL_HTTP_VERSION_2_0: "2",
        c.CURL_HTTP_VERSION_3: "3",
    }


def information(handle: Curl) -> dict[str, Any]:
    """Returns all information about the last request except the times, by curl's names."""
    c = pycurl()
    get = handle.getinfo
    get_bytes = handle.getinfo_raw
    try:
        url = _text(get_bytes(c.EFFECTIVE_URL))
    except c.error:
        # libcurl did not start the request, so it has no URL.
        url = None
    return {
        "content_length_download": _not_negative(get(c.CONTENT_LENGTH_DOWNLOAD_T)),
        "content_length_upload": _not_negative(get(c.CONTENT_LENGTH_UPLOAD_T)),
        "content_type": _text(get_bytes(c.CONTENT_TYPE)),
        "effective_url": mask_password(url) if url else None,
        "header_size": get(c.HEADER_SIZE),
        "http_code": get(c.HTTP_CODE) or None,
        "http_connectcode": get(c.HTTP_CONNECTCODE) or None,
        "http_version": versions(c).get(get(c.INFO_HTTP_VERSION)),
        "httpauth_avail": get(c.HTTPAUTH_AVAIL),
        "local_ip": get(c.LOCAL_IP) or None,
        "local_port": _not_negative(get(c.LOCAL_PORT)) or None,
        "num_connects": get(c.NUM_CONNECTS),
        "os_errno": get(c.OS_ERRNO) or None,
        "primary_ip": get(c.PRIMARY_IP) or None,
        "primary_port": _not_negative(get(c.PRIMARY_PORT)) or None,
        "proxyauth_avail": get(c.PROXYAUTH_AVAIL),
        "redirect_url": _text(get_bytes(c.REDIRECT_URL)),
        "request_size": get(c.REQUEST_SIZE),
        "retry_after": get(c.RETRY_AFTER) or None,
        "size_download": get(c.SIZE_DOWNLOAD_T),
        "size_upload": get(c.SIZE_UPLOAD_T),
        "ssl_engines": get(c.SSL_ENGINES),
        "ssl_verifyresult": get(c.SSL_VERIFYRESULT),
        # Reported since libcurl 8.7. With a proxy, the first stages are those of the connection to the proxy.
        "used_proxy": bool(get(c.USED_PROXY)) if hasattr(c, "USED_PROXY") else None,
    }


def _text(received: bytes | None) -> str | None:
    """Decodes text from a server. Bytes that are not UTF-8 become escapes such as \\xe9."""
    if received is None:
        return None
    return received.decode("utf-8", "backslashreplace")


def _not_negative(number: int) -> int | None:
    if number < 0:
        return None
    return number
