"""Debian's packages, which apt-get installs where it may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from dyno.install.tools import InstallError, run

# Packages of servers start them, and again with the machine, unless such a policy forbids it; nobody asked for that.
SCRIPT = """
trap 'exit 1' HUP INT TERM
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\\nexit 101\\n' >"$policy" && chmod +x "$policy"
fi
apt-get update -qq >/dev/null
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
"""


def command(packages: Sequence[str]) -> str:
    """What an administrator would type."""
    return " ".join(["apt-get install -y", *packages])


def install(packages: Sequence[str], yes: bool) -> None:
    """Installs them, and starts no service. Raises NotHad, with the command, where it may not or can't."""
    if shutil.which("apt-get") is None:
        raise InstallError(f"there is no apt-get here; what it wants, Debian has in {', '.join(packages)}")
    as_root = _as_root()
    if as_root is None:
        raise InstallError(f"an administrator can install it: {command(packages)}")
    if not yes:
        raise InstallError(f"to be installed by {command(packages)}, which --yes does")
    run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", SCRIPT, "sh", *packages], name="apt-get")


def _as_root() -> list[str] | None:
    """The words before a command of root's; None where there are none that ask nothing."""
    if os.geteuid() == 0:
        return []
    asked = ["sudo", "-n"]
    able = shutil.which("sudo") and subprocess.run([*asked, "true"], capture_output=True).returncode == 0
    return asked if able else None
