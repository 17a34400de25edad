"""Secrets in the addresses of users' own servers: found, and hidden. They are shown and kept nowhere.

Of an address that is its password, its fragment, and all after the question mark that is not known to be harmless.
Where an address can be read in two ways, as with an @ in a password that should have been written %40, what is
secret in either of them is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from urllib.parse import quote, unquote, unquote_plus

HIDDEN = "***"
Mark = Callable[[str], str]
"""What a secret is replaced by."""
Span = tuple[int, int]

# First libpq's, then those of MongoDB, then those of MariaDB, MySQL, Redis and Valkey.
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
"""What may follow the question mark and is shown with its value, in lower case."""
# One that is longer is found from there on: without a limit, all of a long word would be looked at from each letter.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://")
_COLON = re.compile(r":|%3a", re.IGNORECASE)
_NO_PORT = re.compile(r":(?!\d*(?:,|$))")
"""What begins like a port and is none: the password of an address that ends too early."""
_NAME = r"[\w.-]{0,64}(?:password|passwd|passphrase|passfile|pwd|sslkey|secret|token)\s*="
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_PAIRS = (
    # As in libpq's 'host=h password=x'.
    re.compile(rf"(?<![\w?&;]){_NAME}\s*({_QUOTED}|\S+)", re.IGNORECASE),
    # As in a piece of an address.
    re.compile(rf"(?:[?&;]{_NAME}|session_token:)([^&\s]+)", re.IGNORECASE),
)
_PUNCTUATION = "\"'`.,:;!)]}>"
_PARTING = re.compile(r"[/?#:@,+&;=%\s]+")
_ENCODED = re.compile("%[0-9A-F]{2}")
LEAST, LEAST_PIECE = 3, 4
"""Characters of a secret, and of a piece of one: what is shorter tells little, and is found in any text."""
LONGEST_WORD = 11
_PLAIN = frozenset(("true", "false", "yes", "none", "off"))


def _stars(secret: str) -> str:
    return HIDDEN


def mask_password(text: str, mark: Mark = _stars) -> str:
    """Any text in which what is secret in an address, or in a pair such as password=..., is hidden:
    postgresql://user:***@host.

    An address ends at a blank.
    """
    words = list(_words(text))
    pairs = [pair for pair in _pairs(text) if not any(start <= pair[0] < end for start, end in words)]
    return _marked(text, [*pairs, *(span for word in words for span in _secret(text, *word))], mark)


def mask_argument(text: str, mark: Mark = _stars) -> str:
    """The same of an address by itself, or of an argument with addresses in it, where a blank is part of them."""
    return _marked(text, _of_argument(text), mark)


def secrets(text: str) -> tuple[str, ...]:
    """What `mask_argument` hides, in each way in which a program may write it when it tells of it: as it stands
    there, decoded, encoded again, in quotes, and in pieces."""
    whole = [text[start:end] for start, end in _of_argument(text)]
    parts = (part for secret in whole for meant in (secret, unquote(secret)) for part in _PARTING.split(meant))
    pieces = (part for part in parts if len(part) >= LEAST_PIECE)
    written = dict.fromkeys(form for secret in (*whole, *pieces) for form in _written(secret))
    return tuple(form for form in written if len(form) >= LEAST and form.lower() not in _PLAIN)


def mask_secrets(text: str, hidden: tuple[str, ...]) -> str:
    """The text with each of these secrets hidden. A short plain word is looked for as a word: as a part of others it
    is no secret."""
    return _searched(hidden).sub(HIDDEN, text) if hidden else text


@lru_cache(maxsize=8)
def _searched(hidden: tuple[str, ...]) -> re.Pattern[str]:
    # The longest first: one may begin like another.
    ordered = sorted(hidden, key=len, reverse=True)
    return re.compile("|".join(map(_pattern, ordered)))


def _pattern(secret: str) -> str:
    plain = secret.isalnum() and len(secret) <= LONGEST_WORD
    return rf"(?<!\w){re.escape(secret)}(?!\w)" if plain else re.escape(secret)


def _written(secret: str) -> Iterator[str]:
    """All that it may stand for, each as programs write it."""
    meant = (secret, unquote(secret), unquote(secret, "latin-1"), unquote_plus(secret), secret.strip("'\""))
    for each in dict.fromkeys(meant):
        whole = each.encode(errors="surrogatepass")
        yield from (each, repr(each)[1:-1], ascii(each)[1:-1], json.dumps(each)[1:-1], repr(whole)[2:-1])
        for encoded in (quote(whole), quote(whole, safe="")):
            yield from (encoded, _ENCODED.sub(lambda found: found[0].lower(), encoded))


# -- where secrets are --------------------------------------------------------------------------------------


def _of_argument(text: str) -> list[Span]:
    starts = [*(match.start() for match in _SCHEME.finditer(text)), len(text)]
    return [*(span for start, end in pairwise(starts) for span in _secret(text, start, end)), *_pairs(text)]


def _words(text: str) -> Iterator[Span]:
    """The addresses in a text, without what is punctuation after them."""
    for match in re.finditer(rf"{_SCHEME.pattern}\S*", text):
        yield match.start(), match.start() + len(match[0].rstrip(_PUNCTUATION))


def _pairs(text: str) -> list[Span]:
    return [match.span(1) for pair in _PAIRS for match in pair.finditer(text)]


def _secret(text: str, start: int, end: int) -> Iterator[Span]:
    """What is secret in the address from `start` to `end`."""
    scheme = _SCHEME.match(text, start, end)
    if scheme is None:
        return
    begin, at = scheme.end(), text.rfind("@", scheme.end(), end)
    if at >= 0:
        if colon := _COLON.search(text, begin, at):
            yield colon.end(), at
    else:
        hosts = _first(text, "/?#", begin, end)
        # An IPv6 address has colons too, and stands in brackets.
        if no_port := _NO_PORT.search(text, max(text.rfind("]", begin, hosts), begin), hosts):
            yield no_port.end(), end
    yield from _query(text, _first(text, "?", begin, end) + 1, end)
    # Of a page that an error points to, the fragment is a place in it.
    if at >= 0 or not scheme[0].lower().startswith("http"):
        yield _first(text, "#", begin, end) + 1, end


def _query(text: str, start: int, end: int, between: str = "&;") -> Iterator[Span]:
    """Of what follows the question mark. A semicolon may part two, or be part of a value."""
    at = start
    for piece in text[start:end].split(between[0]):
        name, equals, value = piece.partition("=")
        after = at + len(piece)
        if unquote(name).lower() not in HARMLESS:
            yield after - len(value if equals else name), after
        elif between[1:]:
            yield from _query(text, at, after, between[1:])
        at = after + 1


def _first(text: str, of: str, start: int, end: int) -> int:
    return min((at for each in of if (at := text.find(each, start, end)) >= 0), default=end)


def _marked(text: str, spans: Iterable[Span], mark: Mark) -> str:
    """The text with what is in `spans`, which may overlap, replaced."""
    apart: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if apart and start <= apart[-1][1]:
            start, end = apart[-1][0], max(end, apart.pop()[1])
        apart.append((start, end))
    for start, end in reversed(apart):
        text = text[:start] + mark(text[start:end]) + text[end:]
    return text
