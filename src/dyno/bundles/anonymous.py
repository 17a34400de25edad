"""Takes out of a run what says where and by whom it was made: paths, addresses, the names of the host and the user.
What looks like a secret is refused, because it may stand elsewhere too.
"""

import os
import pwd
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

from dyno.contracts.passwords import HIDDEN
from dyno.fields import HISTOGRAMS

PATH_MARK = "(path)"
HOST_MARK = "(host)"
USER_MARK = "(user)"
ADDRESS_MARK = "(address)"
DROPPED = {"output", "mount_point", "device"}
"""Keys whose texts are the machine's own. A trial's output may have anything in it."""
MACHINES, HISTOGRAM = {"machines", "by_machine"}, "histogram"
VERSIONS = {"version", "dyno", "kernel", "libc", "library"}
"""Keys of versions, which look like addresses."""
ORDINARY_USERS = {"root", "user", "admin", "test"}
"""Names of users that are words of any text."""
# Files of the system that everybody has say nothing.
_PATH = re.compile(
    r"(?<![\w.:/)])(?!/(?:dev/(?:null|zero|u?random)|proc|sys|bin/sh|usr/bin/env)\b)/(?:[\w.+~@%,-]+/)+[\w.+~@%,-]*"
    r"|(?<![\w.])~/[\w.+~@%,/-]+"
)
_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,31})://[^\s'\"<>\])},;]*", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.])")
_IPV6 = re.compile(
    r"(?<![\w:])(?:(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}|[0-9a-f]{0,4}(?::[0-9a-f]{1,4})*::[0-9a-f:]+)(?![\w:])", re.I
)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")

SECRETS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    "a key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a token of GitHub": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}"),
    "a token of GitLab": re.compile(r"\bglpat-[\w-]{20,}"),
    "a token of Slack": re.compile(r"\bxox[abeprs]-[\w-]{10,}"),
    "a key of Google": re.compile(r"\bAIza[\w-]{35}"),
    "a key of Stripe": re.compile(r"\b[rs]k_(?:live|test)_\w{16,}"),
    "a web token": re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"),
    "a header with a credential": re.compile(
        r"\b(?:authorization|x-api-key|cookie)\s*:\s*\S|\bbearer\s+[\w.~+/-]{16,}", re.I
    ),
    "a password in an address": re.compile(rf"://[^\s/:@'\"]*:(?!{re.escape(HIDDEN)}@)[^\s/@'\"]+@"),
    "a password": re.compile(
        r"(?:password|passwd|passphrase|pwd|requirepass|masterauth|secret|token|api_?key)[\\'\"]{0,2}\s*[=:]\s*[\\'\"]{0,2}"
        rf"(?!{re.escape(HIDDEN)})[^\s\\'\",;)&]{{3,}}|identified\s+by\s+['\"](?!{re.escape(HIDDEN)})",
        re.IGNORECASE,
    ),
}


def names_of_this_machine() -> Mapping[str, str]:
    """Returns the names that must not be published, with what stands for each."""
    names = {socket.gethostname(): HOST_MARK, socket.getfqdn(): HOST_MARK}
    try:
        users = {pwd.getpwuid(os.getuid()).pw_name, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    except KeyError:
        users = {os.environ.get("USER", "")}
    names |= dict.fromkeys(users - ORDINARY_USERS, USER_MARK)
    return {name: mark for name, mark in names.items() if len(name) >= 3 and name != "localhost"}


def cleaner(names: Mapping[str, str]) -> Callable[[Any], Any]:
    """Returns a function that cleans the data of one run. In it, the same address always becomes the same number."""
    addresses: dict[str, str] = {}
    machines: dict[str, str] = {}
    longest_first = sorted(names, key=len, reverse=True)
    whole = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest_first) or "(?!)")

    def url(found: re.Match[str]) -> str:
        text = addresses.setdefault(found[0], f"server-{len(addresses) + 1}")
        return f"{found[1]}://{text}"

    def text(value: str, key: str) -> str:
        value = _URL.sub(url, value)
        if key not in VERSIONS:
            value = _IPV6.sub(ADDRESS_MARK, _IPV4.sub(ADDRESS_MARK, value))
        value = _MAIL.sub(USER_MARK, value)
        value = _PATH.sub(PATH_MARK, value)
        return whole.sub(lambda found: names[found[0]], value)

    def clean(value: object, key: str = "") -> object:
        if isinstance(value, str):
            if key in HISTOGRAMS:
                return value
            return text(value, key)
        if isinstance(value, dict) and key in MACHINES:
            called = {name: machines.setdefault(name, f"machine-{len(machines) + 1}") for name in value}
            return {called[name]: clean(each, HISTOGRAM if key in HISTOGRAMS else "") for name, each in value.items()}
        if isinstance(value, dict) and key in HISTOGRAMS:
            return {text(name, ""): each for name, each in value.items()}
        if isinstance(value, dict):
            return {
                text(name, ""): None if name in DROPPED and isinstance(each, str) else clean(each, name)
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [clean(each, key) for each in value]
        return value

    return clean


def secret_in(text: str) -> str | None:
    """Returns what kind of secret seems to be in a text."""
    return next((kind for kind, pattern in SECRETS.items() if pattern.search(text)), None)
