"""Passwords in the addresses of users' own servers: found, and hidden. They are shown and kept nowhere."""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
# The password of an address ends at the last @ of the word: it may hold one itself.
_PASSWORD = re.compile(r"(://[^:/?#\s]*:)(\S+)(?=@)")
_PASSWORD_ARGUMENT = re.compile(r"([?&](?:password|passwd|pwd|sslpassword)=)([^&\s]+)", re.IGNORECASE)


def concealed(text: str) -> str:
    """A text in which every password of an address is hidden: postgresql://user:***@host."""
    return _PASSWORD_ARGUMENT.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1{HIDDEN}", text))


def passwords(text: str) -> tuple[str, ...]:
    """The passwords that `concealed` hides: as they stand there, and as what they stand for (%2F for a slash)."""
    found = [match[2] for rule in (_PASSWORD, _PASSWORD_ARGUMENT) for match in rule.finditer(text)]
    return tuple(dict.fromkeys([*found, *map(unquote, found)]))
