"""What one engine lacks, got in turn: its interpreter and packages of Python, its programs, the system's packages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Program
from dyno.host import interpreters
from dyno.install import environment, go, maven, pip, system
from dyno.install.tools import InstallError, made
from dyno.servers.verify_program import forget, verify

Step = Callable[[], str]
"""Does one thing; returns what it did, or nothing where nothing was to be done. Raises NotHad."""


def install(spec: EngineSpec, yes: bool, groups: tuple[str, ...], say: Callable[[str], None]) -> bool:
    """Gets what the engine lacks, and says of each step in one line how it went; whether the engine can now run.

    What one step can't get hinders no other. With `yes`, system packages are installed, too.
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
        yield lambda: _own(spec, requires, groups, say)
    elif requires:
        yield lambda: _told(pip.install(Path(sys.executable), requires, say))
    # What fetches a program may be one of the packages.
    first = bool(spec.packages) and shutil.which("mvn") is None and any(map(_fetched, spec.programs))
    if first:
        yield lambda: _packages(spec, yes)
    for program in spec.programs:
        yield lambda program=program: _program(program, say)  # type: ignore[misc]
    own = (spec.through(name) for name, port in spec.ports.items() if port.packages)
    for found in (*([] if first else [spec]), *own):
        if found.packages:
            yield lambda found=found: _packages(found, yes)  # type: ignore[misc]


def _fetched(program: Program) -> bool:
    """Whether Maven is to fetch it."""
    return not isinstance(program.source, GoModule) and program.path() is None


def _own(spec: EngineSpec, requires: tuple[str, ...], groups: tuple[str, ...], say: Callable[[str], None]) -> str:
    if spec.interpreter() is None:
        say(f"making an environment of Python {spec.python}")
    return _told(environment.make(spec.name, spec.python, requires, groups, say, spec.builds))


def _told(installed: dict[str, str]) -> str:
    return (installed and f"installed {', '.join(f'{name} {at}' for name, at in sorted(installed.items()))}") or ""


def _program(program: Program, say: Callable[[str], None]) -> str:
    if (path := program.path()) is not None:
        try:
            verify(program, path)
            return ""
        except Refused as why:
            say(str(why))
    # What it was before doesn't bind what it will be.
    forget(program)
    built = isinstance(program.source, GoModule)
    say(f"{'building' if built else 'fetching'} {program.name} {program.version}")
    with made(program.home) as into:
        # Beside it, where there is room, and not in /tmp, which may be memory.
        work = into / "work"
        work.mkdir()
        if isinstance(program.source, GoModule):
            go.build(program, program.source, into, work)
        else:
            maven.fetch(program, program.source, into, work)
        shutil.rmtree(work)
    path = program.path()
    if path is None:
        raise InstallError(f"{program.name} is not in {program.home}")
    try:
        verify(program, path)
    except Refused as why:
        raise InstallError(str(why)) from None
    return f"{'built' if built else 'fetched'} {path}"


def _packages(spec: EngineSpec, yes: bool) -> str:
    """Only where something is missing still: what is here may have come in another way."""
    if spec.missing() or spec.needing() is None:
        return ""
    system.install(spec.packages, yes)
    return f"installed {', '.join(spec.packages)}"
