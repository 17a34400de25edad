"""Installs what an engine lacks: its interpreter, Python packages, programs and system packages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from dyno.contracts.engine import EngineSpec
from dyno.contracts.programs import GoModule
from dyno.host import interpreters
from dyno.install import environment, pip, programs
from dyno.install.tools import InstallError, run

Step = Callable[[], str]
"""A step of an installation. It returns what it did, or an empty text if there was nothing to do, and raises
InstallError."""

# Debian packages of servers start a service, at once and at each boot, unless a policy forbids it.
APT_SCRIPT = """
trap 'exit 1' HUP INT TERM
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\\nexit 101\\n' >"$policy" && chmod +x "$policy"
fi
apt-get update -qq >/dev/null
apt-get install -y -qq --no-install-recommends "$@" >/dev/null
"""


def install(spec: EngineSpec, yes: bool, groups: tuple[str, ...], say: Callable[[str], None]) -> bool:
    """Installs what the engine lacks, and reports each step in one line. Returns whether the engine can run now.

    If a step fails, the others are still done. With `yes`, system packages are installed too.
    """
    complete = True
    for step in _steps(spec, yes, groups, say):
        try:
            if done := step():
                say(done)
        except InstallError as why:
            complete = False
            say(f"not installed: {why}")
        interpreters.look_again()
    lacking = next(filter(None, (spec.through(port).lacking() for port in spec.ports)), None)
    if complete:
        say(lacking or "ready")
    return complete and not lacking


def _steps(spec: EngineSpec, yes: bool, groups: tuple[str, ...], say: Callable[[str], None]) -> Iterator[Step]:
    requires = tuple(dict.fromkeys(each for port in spec.ports for each in spec.through(port).requires))
    if spec.python:
        yield lambda: _environment(spec, requires, groups, say)
    elif requires:
        yield lambda: _installed(pip.install(Path(sys.executable), requires, say))
    # Install the packages first if Maven, which fetches programs, may be one of them.
    fetched = [each for each in spec.programs if not isinstance(each.source, GoModule) and each.path() is None]
    first = bool(spec.packages and fetched) and shutil.which("mvn") is None
    if first:
        yield lambda: _packages(spec, yes)
    for program in spec.programs:
        yield lambda program=program: programs.install(program, say)  # type: ignore[misc]
    own = (spec.through(name) for name, port in spec.ports.items() if port.packages)
    for each in (*([] if first else [spec]), *own):
        if each.packages:
            yield lambda each=each: _packages(each, yes)  # type: ignore[misc]


def _environment(
    spec: EngineSpec, requires: tuple[str, ...], groups: tuple[str, ...], say: Callable[[str], None]
) -> str:
    if spec.interpreter() is None:
        say(f"making an environment of Python {spec.python}")
    return _installed(environment.make(spec.name, spec.python, requires, groups, say, spec.builds))


def _installed(versions: dict[str, str]) -> str:
    return (versions and f"installed {', '.join(f'{name} {at}' for name, at in sorted(versions.items()))}") or ""


def _packages(spec: EngineSpec, yes: bool) -> str:
    """If the engine still lacks something, installs Debian packages, without starting their services."""
    if spec.missing() or spec.needing() is None:
        return ""
    packages = ", ".join(spec.packages)
    command = " ".join(["apt-get install -y", *spec.packages])
    if shutil.which("apt-get") is None:
        raise InstallError(f"apt-get not found; on Debian, install {packages}")
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and not (shutil.which("sudo") and subprocess.run([*root, "true"], capture_output=True).returncode == 0):
        raise InstallError(f"an administrator can install it: {command}")
    if not yes:
        raise InstallError(f"to be installed by {command}, which --yes does")
    script = ["env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", APT_SCRIPT, "sh", *spec.packages]
    run([*root, *script], name="apt-get")
    return f"installed {packages}"
