"""Addresses of users' own servers: reads them from env:NAME or file:PATH, and masks the secrets in them.

The secrets are the password, the fragment, and each value after the question mark whose name is not known to be
harmless. An address may be ambiguous, for example if its password has an @ that should have been written %40. Then
the secrets of both readings are masked.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from urllib.parse import unquote

MOST_BYTES = 16 << 10
HIDDEN = "***"
Span = tuple[int, int]

# The parameters of libpq, of MongoDB, and of MariaDB, MySQL, Redis and Valkey.
_HARMLESS = """
application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
gssencmode host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
load_balance_hosts port replication require_auth requiressl service ssl_max_protocol_version ssl_min_protocol_version
sslcertmode sslcompression sslcrl sslcrldir sslmode sslnegotiation sslrootcert sslsni
target_session_attrs tcp_user_timeout user

appname authmechanism authsource compressors connecttimeoutms directconnection gssapiservicename heartbeatfrequencyms
journal loadbalanced localthresholdms maxconnecting maxidletimems maxpoolsize maxstalenessseconds minpoolsize
readconcernlevel readpreference readpreferencetags replicaset retryreads retrywrites servermonitoringmode
serverselectiontimeoutms sockettimeoutms srvmaxhosts srvservicename ssl timeoutms tls tlsallowinvalidcertificates
tlsallowinvalidhostnames tlscafile tlscrlfile tlsdisableocspendpointcheck tlsinsecure uuidrepresentation w
waitqueuetimeoutms wtimeoutms zlibcompressionlevel

charset client_name db decode_responses encoding health_check_interval max_connections protocol retry_on_timeout
socket_connect_timeout socket_keepalive socket_timeout ssl_ca ssl_ca_certs ssl_cert_reqs ssl_check_hostname timeout
unix_socket username
"""
HARMLESS = frozenset(_HARMLESS.split())
"""Names of query parameters whose values are not masked, in lower case."""
# The limit keeps the search linear. Of a longer scheme, the last 32 characters match.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://")
_COLON = re.compile(r":|%3a", re.IGNORECASE)
_NO_PORT = re.compile(r":(?!\d*(?:,|$))")
"""Matches a colon before something that is not a port: the password of an address that ends too early."""
_NAME = r"[\w.-]{0,64}(?:password|passwd|passphrase|passfile|pwd|sslkey|secret|token)\s*="
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_PAIRS = (
    # A pair as in libpq's 'host=h password=x', which ends at a blank.
    re.compile(rf"(?<![\w?&;]){_NAME}\s*({_QUOTED}|\S+)", re.IGNORECASE),
    # A pair in a piece of an address, which ends at an & too.
    re.compile(rf"(?:[?&;]{_NAME}|session_token:)([^&\s]+)", re.IGNORECASE),
)
_PUNCTUATION = "\"'`.,:;!)]}>"
LEAST = 3
"""Minimum length of a secret that is searched for, in characters: a shorter one occurs in any text."""
LONGEST_WORD = 11
_COMMON_WORDS = frozenset(("true", "false", "yes", "none", "off"))


def resolve_address(text: str) -> str:
    """Returns the address that `env:NAME` or `file:PATH` refers to; any other text is itself an address. With both
    forms, the address does not appear in `ps` or a shell's history. Raises ValueError; its text never contains the
    address."""
    if text.startswith("env:"):
        return _of_variable(text.removeprefix("env:"))
    if text.startswith("file:"):
        return _of_file(text.removeprefix("file:"))
    return text


@cache
def _of_variable(name: str) -> str:
    """Removes the variable from the environment, so that no process that Dyno starts inherits it."""
    if not os.environ.get(name):
        raise ValueError(f"the environment variable {name} is {'empty' if name in os.environ else 'not set'}")
    return os.environ.pop(name)


def _of_file(name: str) -> str:
    """Returns the first line of a regular file that only its owner may access."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(name, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ValueError(f"{name} is not a regular file")
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ValueError(f"others may read {name}, which has an address: chmod 600 {shlex.quote(name)}")
            line = file.readline(MOST_BYTES)
    except OSError as error:
        raise ValueError(f"can't read {name}: {error.strerror}") from None
    if not (address := line.rstrip(b"\r\n")):
        raise ValueError(f"the first line of {name} is empty; expected an address")
    return os.fsdecode(address)


def mask_password(text: str) -> str:
    """Masks the secrets of all addresses in a text, and of pairs such as password=...: postgresql://user:***@host.

    An address ends at a blank.
    """
    matches = re.finditer(rf"{_SCHEME.pattern}\S*", text)
    words = [(match.start(), match.start() + len(match[0].rstrip(_PUNCTUATION))) for match in matches]
    pairs = [pair for pair in _pairs(text) if not any(start <= pair[0] < end for start, end in words)]
    return _mask_spans(text, [*pairs, *(span for word in words for span in _secret_spans(text, *word))])


def without_password(url: str) -> str:
    """Returns the address without its password, for a client that then asks for it: postgresql://user@host. Other
    secrets are masked."""
    return mask_password(url).replace(f":{HIDDEN}@", "@")


def mask_argument(text: str) -> str:
    """Masks the secrets of an address, or of an argument that contains addresses. A blank does not end an address."""
    return _mask_spans(text, _argument_spans(text))


def secrets(text: str) -> tuple[str, ...]:
    """Returns the secrets that `mask_argument` masks, both as written and percent-decoded."""
    written = [text[start:end] for start, end in _argument_spans(text)]
    forms = dict.fromkeys(form for secret in written for form in (secret, unquote(secret)))
    return tuple(form for form in forms if len(form) >= LEAST and form.lower() not in _COMMON_WORDS)


def mask_secrets(text: str, hidden: tuple[str, ...]) -> str:
    """Masks the secrets `hidden`, and those of addresses, in a text. Returns the text unchanged if `hidden` is empty.

    A short alphanumeric secret is masked only as a whole word, because as a part of another word it reveals nothing.
    """
    if hidden:
        return mask_password(_pattern(hidden).sub(HIDDEN, text))
    return text


@lru_cache(maxsize=8)
def _pattern(hidden: tuple[str, ...]) -> re.Pattern[str]:
    def secret_pattern(secret: str) -> str:
        is_word = secret.isalnum() and len(secret) <= LONGEST_WORD
        if is_word:
            return rf"(?<!\w){re.escape(secret)}(?!\w)"
        return re.escape(secret)

    # The longest first, because a secret may begin with another one.
    return re.compile("|".join(secret_pattern(secret) for secret in sorted(hidden, key=len, reverse=True)))


def _argument_spans(text: str) -> list[Span]:
    starts = [*(match.start() for match in _SCHEME.finditer(text)), len(text)]
    spans = [span for start, end in pairwise(starts) for span in _secret_spans(text, start, end)]
    return [*spans, *_pairs(text)]


def _pairs(text: str) -> list[Span]:
    return [match.span(1) for pair in _PAIRS for match in pair.finditer(text)]


def _secret_spans(text: str, start: int, end: int) -> Iterator[Span]:
    """Yields the secrets of the address between `start` and `end`."""
    scheme = _SCHEME.match(text, start, end)
    if scheme is None:
        return
    begin, at = scheme.end(), text.rfind("@", scheme.end(), end)
    if at >= 0:
        if colon := _COLON.search(text, begin, at):
            yield colon.end(), at
    else:
        hosts = _find_first(text, "/?#", begin, end)
        # Colons in brackets belong to IPv6 addresses.
        if no_port := _NO_PORT.search(text, max(text.rfind("]", begin, hosts), begin), hosts):
            yield no_port.end(), end
    yield from _query_spans(text, _find_first(text, "?", begin, end) + 1, end)
    # The fragment is not masked in addresses of web pages, which error messages link to.
    if at >= 0 or not scheme[0].lower().startswith("http"):
        yield _find_first(text, "#", begin, end) + 1, end


def _query_spans(text: str, start: int, end: int, separators: str = "&;") -> Iterator[Span]:
    """Yields the secrets in the query. A semicolon may separate two parameters or be part of a value: masks both."""
    at = start
    for piece in text[start:end].split(separators[0]):
        name, equals, value = piece.partition("=")
        after = at + len(piece)
        if unquote(name).lower() not in HARMLESS:
            yield after - len(value if equals else name), after
        elif separators[1:]:
            yield from _query_spans(text, at, after, separators[1:])
        at = after + 1


def _find_first(text: str, characters: str, start: int, end: int) -> int:
    return min((at for each in characters if (at := text.find(each, start, end)) >= 0), default=end)


def _mask_spans(text: str, spans: Iterable[Span]) -> str:
    """Returns the text with `spans` masked. They may overlap."""
    apart: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if apart and start <= apart[-1][1]:
            start, end = apart[-1][0], max(end, apart.pop()[1])
        apart.append((start, end))
    for start, end in reversed(apart):
        text = text[:start] + HIDDEN + text[end:]
    return text
