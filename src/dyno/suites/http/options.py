"""Options of a request, named like curl's long options; URLs in ASCII; and options after a redirect. No libcurl."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value, unknown_name_message

PORTS = {"http": 80, "https": 443}
"""Default port of each supported scheme."""
VERSIONS = ("http1_0", "http1_1", "http2", "http2_prior_knowledge", "http3", "http3_only")
EXCLUSIVE = (VERSIONS, ("ipv4", "ipv6"), ("head", "data", "upload_file", "form"))
REDIRECTS, MOST_REDIRECTS = 50, 1_000
"""curl's default number of redirects, and the limit, since each hop is kept in memory."""
CONNECT_SECONDS = 300.0
"""Default of libcurl."""
MOST_SECONDS = 1e6
_HOST, _PORT = r"(?:\[[^\]]+\]|[^:\s]+)", r"\d{1,5}"
ADDRESSES = (
    ("resolve", re.compile(rf"-{_HOST}:{_PORT}|\+?{_HOST}:{_PORT}:\S+"), "example.org:443:127.0.0.1"),
    ("connect_to", re.compile(rf"{_HOST}?:(?:{_PORT})?:{_HOST}?:(?:{_PORT})?"), "example.org:443:127.0.0.1:8443"),
)
"""Options that contain addresses, with their form, which libcurl requires, and an example."""
PRIVATE = ("authorization", "cookie")
"""Headers that are not sent to another origin (host, port or scheme)."""
REWRITTEN = (301, 302, 303)
"""Statuses of redirects that turn a POST into a GET."""
AMBIGUOUS = "ßẞς\u200c\u200d"
"""Letters that IDNA 2003 (Python's library) and IDNA 2008 (curl) map to different hosts."""
_URL = re.compile(r"([\w+.-]*://)?(?:([^/?#]*)@)?([^/?#]*)(.*)", re.DOTALL)


def option(words: str, metavar: str, help: str, default: Any = None) -> Any:
    """A field of Options, with the words, metavar and help of its flag of `dyno http`."""
    return field(default=default, metadata={"words": words.split("|"), "metavar": metavar, "help": help})


@dataclass(frozen=True)
class Options:
    """Options of a request. Each field is curl's option of that name. Times are in seconds, sizes in bytes."""

    header: Sequence[str] = option("-H|--header", "NAME: VALUE", "Send this header.", ())
    resolve: Sequence[str] = option("--resolve", "HOST:PORT:ADDRESS", "Use this address for a host.", ())
    connect_to: Sequence[str] = option("--connect-to", "HOST:PORT:HOST:PORT", "Connect to another host and port.", ())
    request: str | None = option("-X|--request", "METHOD", "Use this method.")
    user: str | None = option("-u|--user", "USER:PASSWORD", "User and password; @FILE: read them from a file.")
    user_agent: str | None = option("-A|--user-agent", "NAME", "Send this User-Agent.")
    referer: str | None = option("-e|--referer", "URL", "Send this Referer.")
    cookie: Sequence[str] = option("-b|--cookie", "NAME=VALUE", "Send these cookies; FILE: those of a file.", ())
    cookie_jar: Path | None = option("-c|--cookie-jar", "FILE", "Write all cookies to a file.")
    form: Sequence[str] = option("-F|--form", "NAME=VALUE", "Send this field; @FILE: a file; <FILE: its text.", ())
    range: str | None = option("-r|--range", "FROM-TO", "Request only these bytes.")
    upload_file: Path | None = option("-T|--upload-file", "FILE", "Upload a file.")
    max_time: float | None = option("-m|--max-time", "SECONDS", "Maximum time, including redirects.")
    connect_timeout: float | None = option("--connect-timeout", "SECONDS", "Maximum time to connect. Default: 300.")
    max_redirs: int = option("--max-redirs", "N", "Maximum number of redirects. Default: 50.", REDIRECTS)
    max_filesize: int | None = option("--max-filesize", "BYTES", "Maximum size of the body.")
    limit_rate: int | None = option("--limit-rate", "BYTES", "Maximum bytes per second.")
    cacert: Path | None = option("--cacert", "FILE", "Trust these certificates.")
    cert: Path | None = option("-E|--cert", "FILE", "Client certificate.")
    key: Path | None = option("--key", "FILE", "Key of the client certificate.")
    proxy: str | None = option("-x|--proxy", "URL", "Use this proxy; '': none.")
    noproxy: str | None = option("--noproxy", "HOSTS", "Hosts to reach without a proxy.")
    interface: str | None = option("--interface", "NAME", "Use this network interface.")
    unix_socket: Path | None = option("--unix-socket", "PATH", "Connect to this socket.")
    output: Path | None = option("-o|--output", "FILE", "Write the body to a file. Default: discard it.")
    dump_header: Path | None = option("-D|--dump-header", "FILE", "Write the response's headers to a file.")
    retry: int = option("--retry", "N", "Repeat the request after transient errors, up to N times.", 0)
    include: bool = option("-i|--include", "", "Write the response's headers before the body.", False)
    verbose: bool = option("-v|--verbose", "", "Show both heads on standard error, with their secrets.", False)
    digest: bool = option("--digest", "", "Use digest authentication with -u.", False)
    insecure: bool = option("-k|--insecure", "", "Accept any certificate.", False)
    ipv4: bool = option("-4|--ipv4", "", "Use IPv4 only.", False)
    ipv6: bool = option("-6|--ipv6", "", "Use IPv6 only.", False)
    http1_0: bool = option("-0|--http1.0", "", "Use HTTP/1.0.", False)
    http1_1: bool = option("--http1.1", "", "Use HTTP/1.1.", False)
    http2: bool = option("--http2", "", "Use HTTP/2 if the server has it.", False)
    http2_prior_knowledge: bool = option("--http2-prior-knowledge", "", "Use HTTP/2 without TLS.", False)
    http3: bool = option("--http3", "", "Use HTTP/3 if the server has it.", False)
    http3_only: bool = option("--http3-only", "", "Use HTTP/3 only.", False)
    tlsv1_2: bool = option("--tlsv1.2", "", "Use TLS 1.2 or later.", False)
    tlsv1_3: bool = option("--tlsv1.3", "", "Use TLS 1.3 or later.", False)
    compressed: bool = option("--compressed", "", "Request a compressed response.", False)
    location: bool = option("-L|--location", "", "Follow redirects.", False)
    head: bool = option("-I|--head", "", "Request only the head.", False)
    get: bool = option("-G|--get", "", "Append -d to the address.", False)
    fail: bool = option("-f|--fail", "", "Count a status of 400 or more as a failure.", False)
    data: bytes | str | None = None

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Options:
        """Creates options from a dict. Raises UsageError for an unknown name, and like `check`."""
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                raise UsageError(unknown_name_message("option", name, names))
        if isinstance(cookie := values.get("cookie", ()), str):
            values = {**values, "cookie": (cookie,)}
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        """Raises UsageError for an invalid value, and for options that exclude each other."""
        for names in EXCLUSIVE:
            both = [name for name in names if getattr(self, name) not in (False, None, ())]
            if len(both) > 1 and not self.get:
                raise UsageError(f"{_flag(both[0])} and {_flag(both[1])} exclude each other")
        for name in ("max_time", "connect_timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= MOST_SECONDS:
                raise UsageError(f"{_flag(name)}: expected seconds over 0 and up to {MOST_SECONDS:,.0f}, got {value}")
        for name in ("max_redirs", "retry"):
            if not 0 <= (value := getattr(self, name)) <= MOST_REDIRECTS:
                raise UsageError(f"{_flag(name)}: expected a whole number from 0 to {MOST_REDIRECTS:,}, got {value}")
        for name in ("cacert", "cert", "key", "upload_file"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise UsageError(f"{_flag(name)}: there is no file {format_value(path)}")
        for name, pattern, example in ADDRESSES:
            for text in getattr(self, name):
                if not pattern.fullmatch(text):
                    raise UsageError(f"{_flag(name)}: expected an address like {example}, got {text!r}")
        texts = (self.request, self.user_agent, self.referer, *self.cookie, *self.header)
        if any(text is not None and ("\n" in text or "\r" in text or "\0" in text) for text in texts):
            raise UsageError("line ends and zero bytes can't be sent in the head of a request")

    @property
    def method(self) -> str:
        if self.request:
            return self.request
        if self.head:
            return "HEAD"
        if self.upload_file is not None:
            return "PUT"
        if self.form or (self.data is not None and not self.get):
            return "POST"
        return "GET"


def _flag(name: str) -> str:
    return "--" + {"http1_0": "http1.0", "http1_1": "http1.1"}.get(name, name).replace("_", "-")


def follow_redirect(options: Options, status: int, source: str, target: str) -> Options:
    """Returns the options of the request that follows a redirect from the URL `source` to `target`.

    Like `curl -L`, it changes the method after some statuses unless --request sets it, and sends no credentials to
    another origin. See --location, --location-trusted and --request in curl's manual.
    """
    following = options
    posts = bool(options.form) or (options.data is not None and not options.get)
    if (status in REWRITTEN and posts) or (status == 303 and options.upload_file is not None):
        following = replace(following, data=None, upload_file=None, form=())
    if options.get:
        # The data was part of the URL that redirected.
        following = replace(following, data=None, get=False)
    before, after = urlsplit(source), urlsplit(target)
    ports = [each.port or PORTS.get(each.scheme) for each in (before, after)]
    if (before.scheme, before.hostname, ports[0]) != (after.scheme, after.hostname, ports[1]):
        # A Host header is valid for one host, on any port.
        dropped = PRIVATE if before.hostname == after.hostname else (*PRIVATE, "host")
        header = [line for line in options.header if line.partition(":")[0].strip().lower() not in dropped]
        following = replace(following, user=None, cookie=(), header=header)
    return following


# -- URLs -----------------------------------------------------------------------------------------------------


def check_url(url: str) -> str:
    """Returns the URL in ASCII. Like curl, adds http:// to a URL without a scheme. Raises UsageError."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        parts.port  # noqa: B018
        if parts.scheme.lower() not in PORTS:
            raise UsageError(f"{format_value(url)}: scheme {parts.scheme}: expected one of {', '.join(PORTS)}")
        if not parts.hostname or any(ord(letter) <= 32 for letter in whole):
            raise ValueError("expected a URL like https://example.org/path")
        return ascii_url(whole)
    except ValueError as error:
        raise UsageError(f"{format_value(url)} is no address: {error}") from None


def ascii_url(url: str) -> str:
    """Returns the URL with its host in IDNA form and the rest percent-encoded. Raises ValueError for an invalid host.

    libcurl can't do this here: the libcurl in pycurl's wheels is built without libidn2.
    """
    if url.isascii():
        return url
    parts = _URL.fullmatch(url)
    assert parts is not None
    scheme, user, address, rest = parts.groups(default="")
    if address.isascii():
        host = address
        colon = ""
        port = ""
    else:
        host, colon, port = address.partition(":")
    if letters := [letter for letter in AMBIGUOUS if letter in host]:
        names = ", ".join(f"U+{ord(letter):04X}" for letter in letters)
        raise ValueError(f"standards disagree about {names} in a host name; give its form that begins with xn--")
    try:
        if not (host.isascii()):
            host = host.encode("idna").decode()
    except UnicodeError:
        raise ValueError("its host is not a valid domain name") from None
    at = ""
    if parts[2] is not None:
        at = f"{percent_encoded(user)}@"
    encoded = f"{scheme}{at}{host}{colon}{port}{percent_encoded(rest)}"
    if not encoded.isascii():
        raise ValueError("only its host, user, path and query may have letters outside ASCII")
    return encoded


def percent_encoded(text: str | bytes) -> str:
    """Percent-encodes each byte outside ASCII, and leaves the rest unchanged."""
    data = text
    if not isinstance(text, bytes):
        data = text.encode(errors="surrogateescape")
    return quote(data, safe=string.printable)
