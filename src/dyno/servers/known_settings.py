"""Settings that a server's program doesn't have, which depends on its version. Those of Dyno's own are left out and
reported in a caveat; a tier's and the user's are refused."""

import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dyno.contracts.model import Caveat, Refused
from dyno.contracts.sanitize import sanitize
from dyno.servers.set_option import plain_name

TIMEOUT_SECONDS = 20
ELLIPSIS = "…"
LEFT_OUT = Caveat("settings", f"runs without settings of Dyno's that this version doesn't have: {ELLIPSIS}")
FIND = Callable[[str, Mapping[str, str]], Collection[str]]
"""Function that returns which of the settings the program at this path doesn't have."""


class FittedSettings(NamedTuple):
    """Settings for a program."""

    settings: Mapping[str, str]
    left_out: tuple[str, ...]
    """Names of Dyno's own settings that the program doesn't have."""


def fit_settings(
    path: str, own: Mapping[str, str], requested: Mapping[str, str], find_unknown: FIND
) -> FittedSettings:
    """Returns the settings for the program at `path`, which the user or a version named. The path is empty for the
    program that is installed. `requested` are settings of a tier or the user, and override Dyno's `own`. Raises
    Refused if the program doesn't have one of them."""
    settings = {**own, **requested}
    if not path:
        return FittedSettings(settings, ())
    unknown = find_unknown(path, settings)
    if refused := [name for name in requested if name in unknown]:
        names = ", ".join(sanitize(name, keep="") for name in refused)
        raise Refused(f"this version has no setting {names}")
    kept = {name: value for name, value in settings.items() if name not in unknown}
    return FittedSettings(kept, tuple(name for name in own if name in unknown))


def describe_left_out(caveat: Caveat, server: object) -> Iterator[Caveat]:
    """Yields the caveat with the names of the settings, if some were left out for this server."""
    # A user's server has no such attribute, nor has one on another machine.
    if names := getattr(server, "left_out", ()):
        yield Caveat(caveat.code, caveat.text.replace(ELLIPSIS, ", ".join(names)))


def find_rejected(
    settings: Mapping[str, str], command: Callable[[Mapping[str, str]], Sequence[str]], pattern: str
) -> Collection[str]:
    """Returns the settings that a program rejects. It names only the first one, so it is started again without that.
    `command` returns a command line that ends at once; the first group of `pattern` is the rejected name."""
    remaining = dict(settings)
    # A program may create files where it is started.
    with tempfile.TemporaryDirectory() as place:
        while match := re.search(pattern, read_output(command(remaining), Path(place))):
            rejected = [name for name in remaining if plain_name(name) == plain_name(match[1])]
            if not rejected:
                break
            for name in rejected:
                del remaining[name]
    return [name for name in settings if name not in remaining]


def read_output(command: Sequence[str], place: Path | None = None) -> str:
    """Returns what a program prints. Raises Refused if it can't be started or doesn't end."""
    try:
        process = subprocess.run(
            command,
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"it can't be asked for its settings: {error}") from None
    return f"{process.stdout}\n{process.stderr}"
