"""Python packages, which pip installs into an environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dyno import installed as ours
from dyno.install.tools import NotHad, run

LISTED = """
import json
from importlib.metadata import distributions
print(json.dumps({dist.metadata["Name"]: dist.version for dist in distributions() if dist.metadata["Name"]}))
"""


def install(python: Path, requirements: Sequence[str], *options: str | Path) -> dict[str, str]:
    """What was installed so that all requirements are there: version by name, nothing of what was there before.
    Raises NotHad."""
    before = installed(python)
    try:
        run([python, "-c", "import pip"])
    except NotHad:
        if python == Path(sys.executable) and ours.apart():
            raise NotHad(f"there is no pip in {environment(python)}: {ours.command(requirements)}") from None
        raise NotHad(f"there is no pip in {environment(python)}; `{python} -m ensurepip` brings one") from None
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    run([python, "-m", "pip", "install", *quiet, *options, "--", *requirements], name="pip")
    return {name: version for name, version in installed(python).items() if before.get(name) != version}


def installed(python: Path) -> dict[str, str]:
    """Every distribution in an interpreter's environment: version by name."""
    found: dict[str, str] = json.loads(run([python, "-c", LISTED]))
    return found


def environment(python: Path) -> str:
    """The directory of an interpreter's environment, for who reads of it."""
    return sys.prefix if python == Path(sys.executable) else str(python.parent.parent)
