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
from functools import cache, lru_cache
from urllib.parse import unquote

MOST_BYTES = 16 << 10
HIDDEN = "***"
LEAST = 3
"""Minimum length of a secret that is searched for, in characters: a shorter one occurs in any text."""
LONGEST_WORD = 11
HARMLESS = (
    "application_name|appname|authmechanism|authsource|charset|client_encoding|client_name|compressors|connect_timeout"
    "|connecttimeoutms|db|dbname|directconnection|encoding|gssencmode|host|hostaddr|journal|maxpoolsize|minpoolsize"
    "|port|protocol|readconcernlevel|readpreference|replicaset|require_auth|retryreads|retrywrites"
    "|serverselectiontimeoutms|service|socket_timeout|sockettimeoutms|ssl|ssl_ca|ssl_ca_certs|ssl_cert_reqs"
    "|ssl_check_hostname|sslmode|sslrootcert|target_session_attrs|timeout|timeoutms|tls|tlscafile|tlsinsecure"
    "|unix_socket|user|username|uuidrepresentation|w|wtimeoutms"
)
"""Names of query parameters whose values are not masked: those of libpq, MongoDB, MariaDB, MySQL, Redis and
Valkey."""
_COMMON_WORDS = frozenset(("true", "false", "yes", "none", "off"))

# In each pattern, the first group is kept and the second is masked.
_QUERY = re.compile(rf"([?&;](?!(?:{HARMLESS})(?:=[^&;#]*)?(?:[&;#]|\Z))(?:[^=&;]*=)?)([^&#]*)", re.IGNORECASE)
_USERINFO = re.compile(r"(\A(?:https?)?://[^:@]*?(?::|%3a))(.*)(?=@)", re.IGNORECASE | re.DOTALL)
# An address without an @ that ends too early, so that its password follows a colon like a port that is no number.
# Colons in brackets belong to IPv6 addresses.
_NO_PORT = re.compile(r"(\A(?:https?)?://[^/?#\[]*?:)(?!\d*(?:\W|\Z))(.+)", re.DOTALL)
# The fragment is not masked in addresses of web pages, which error messages link to.
_FRAGMENT = re.compile(r"(\A://[^#]*#)(.+)", re.DOTALL)
_PAIR = re.compile(
    r"((?:password|passwd|passphrase|passfile|pwd|sslkey|secret|token)\s*=\s*|session_token:)"
    r"('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s&]+)",
    re.IGNORECASE,
)
_IN_TEXT = re.compile(r"(?:https?)?://\S*")
# In an argument a blank does not end an address, but the beginning of the next address does. The limit keeps the
# search linear.
_IN_ARGUMENT = re.compile(r"(?:https?)?://.*?(?=[a-z][a-z0-9+.-]{0,31}://|\Z)", re.IGNORECASE | re.DOTALL)


def resolve_address(text: str) -> str:
    """Returns the address that `env:NAME` or `file:PATH` refers to; any other text is itself an address. With both
    forms, the address does not appear in `ps` or a shell's history. Raises ValueError; its text never contains the
    address."""
    if text.startswith("env:"):
        return _of_variable(text.removeprefix("env:"))
    return _of_file(text.removeprefix("file:")) if text.startswith("file:") else text


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
    """Masks the secrets of all addresses in a text, and of pairs such as password=...: postgresql://user:***@host. An
    address ends at a blank."""
    return _masked(text, _IN_TEXT)[0]


def mask_argument(text: str) -> str:
    """Masks the secrets of an address, or of an argument that contains addresses. A blank does not end an address."""
    return _masked(text, _IN_ARGUMENT)[0]


def secrets(text: str) -> tuple[str, ...]:
    """Returns the secrets that `mask_argument` masks, both as written and percent-decoded."""
    forms = dict.fromkeys(form for secret in _masked(text, _IN_ARGUMENT)[1] for form in (secret, unquote(secret)))
    return tuple(form for form in forms if len(form) >= LEAST and form.lower() not in _COMMON_WORDS)


def mask_secrets(text: str, hidden: tuple[str, ...]) -> str:
    """Masks the secrets `hidden`, and those of addresses, in a text. Returns the text unchanged if `hidden` is empty.

    A short alphanumeric secret is masked only as a whole word, because as a part of another word it reveals nothing.
    """
    return mask_password(_pattern(hidden).sub(HIDDEN, text)) if hidden else text


@lru_cache(maxsize=8)
def _pattern(hidden: tuple[str, ...]) -> re.Pattern[str]:
    def one(secret: str) -> str:
        is_word = secret.isalnum() and len(secret) <= LONGEST_WORD
        return rf"(?<!\w){re.escape(secret)}(?!\w)" if is_word else re.escape(secret)

    # The longest first, because a secret may begin with another one.
    return re.compile("|".join(one(secret) for secret in sorted(hidden, key=len, reverse=True)))


def _masked(text: str, addresses: re.Pattern[str]) -> tuple[str, list[str]]:
    """Returns the text with its secrets masked, and the secrets."""
    values = list[str]()

    def mask(match: re.Match[str]) -> str:
        values.append(match[2])
        return match[1] + HIDDEN * bool(match[2])

    def mask_address(match: re.Match[str]) -> str:
        before, question_mark, query = match[0].partition("?")
        address = before + _QUERY.sub(mask, question_mark + query)
        address = (_USERINFO if "@" in address else _NO_PORT).sub(mask, address)
        return _FRAGMENT.sub(mask, address)

    masked = _PAIR.sub(mask, addresses.sub(mask_address, text))
    return masked, [value for value in values if value != HIDDEN]
