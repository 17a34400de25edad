"""How Dyno itself was installed, and the command that adds packages of Python there. Nothing is installed here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

DISTRIBUTION = "dyno-bench"
UV_TOOL, PIPX, UV, VENV, SYSTEM, MANAGED = "uv tool", "pipx", "uv", "venv", "system", "managed"
"""By `uv tool install`; by pipx; in an environment that uv made, which has no pip; in another; in the system's
Python; and in one whose distributor forbids pip."""
_RECEIPT, _METADATA, _CONFIGURED, _FORBIDS = (
    *("uv-receipt.toml", "pipx_metadata.json", "pyvenv.cfg"),
    "EXTERNALLY-MANAGED",
)

_PLACES = ("path", "directory", "editable", "url", "git")
"""Whence it came, where not from a registry."""


def how(prefix: Path, library: Path) -> str:
    """Which of these it is, by what the installer left in the environment; `library`: of Python's own modules."""
    if (prefix / _RECEIPT).is_file():
        return UV_TOOL
    if (prefix / _METADATA).is_file():
        return PIPX
    if (prefix / _CONFIGURED).is_file():
        made_by_uv = re.search(r"^uv\s*=", _text(prefix / _CONFIGURED), re.MULTILINE)
        return UV if made_by_uv and not list((prefix / "bin").glob("pip")) else VENV
    return MANAGED if (library / _FORBIDS).is_file() else SYSTEM


def command(requirements: Sequence[str], prefix: Path | None = None, library: Path | None = None) -> str:
    """What adds them to where Dyno runs: `pip install lmdb`, `pipx inject dyno-bench lmdb`."""
    at = prefix or Path(sys.prefix)
    kind = how(at, library or Path(sysconfig.get_path("stdlib")))
    if kind in (UV_TOOL, PIPX):
        requirements = [each for one in requirements for each in _extra(one)]
    words = " ".join(map(shlex.quote, dict.fromkeys(requirements)))
    if kind == UV_TOOL:
        # What it was given before is gone where it is not given again.
        main, others = _received(at)
        given = " ".join(f"--with {shlex.quote(each)}" for each in dict.fromkeys([*others, *requirements]))
        return f"uv tool install {given} {shlex.quote(main)}"
    if kind == PIPX:
        return f"pipx inject {_injected(at)} {words}"
    if kind == UV:
        return f"uv pip install --python {shlex.quote(str(at))} {words}"
    if kind == MANAGED:
        return f"python3 -m venv ~/dyno && ~/dyno/bin/pip install {DISTRIBUTION} {words}"
    return f"{_pip(at)} install {words}"


@cache
def extra(name: str) -> str:
    """What adds an extra of Dyno's own."""
    return command([f"{DISTRIBUTION}[{name}]"])


def excluded(modules: Sequence[str], requirements: Sequence[str], version: str) -> str | None:
    """The first requirement that would bring one of the modules, but isn't for Python `version` by its marker."""
    for requirement in requirements:
        if ";" in requirement:
            # Slow to import, and few requirements have a marker.
            from packaging.requirements import Requirement

            parsed = Requirement(requirement)
            if parsed.name in modules and parsed.marker and not parsed.marker.evaluate({"python_version": version}):
                return requirement
    return None


def apart() -> bool:
    """Whether it is in an environment that a tool looks after, which takes away what others put there."""
    return how(Path(sys.prefix), Path(sysconfig.get_path("stdlib"))) in (UV_TOOL, PIPX)


def _pip(prefix: Path) -> str:
    """The one of that environment: by its path where the shell would take another."""
    own, found = prefix / "bin" / "pip", shutil.which("pip")
    same = found is not None and Path(found).parent.resolve() == own.parent.resolve()
    return "pip" if same or not own.exists() else shlex.quote(str(own))


def _extra(requirement: str) -> list[str]:
    """An extra of Dyno's as what it stands for: to ask for Dyno once more would change nothing."""
    found = re.fullmatch(rf"{DISTRIBUTION}\[([\w-]+)\]", requirement)
    if found is None:
        return [requirement]
    mark = re.compile(rf"""extra\s*==\s*["']{found[1]}["']""")
    # Slow to import, and wanted by few.
    from importlib.metadata import requires

    with suppress(ModuleNotFoundError):
        declared = [each.partition(";") for each in requires(DISTRIBUTION) or ()]
        return [name.strip() for name, _, where in declared if mark.search(where)] or [requirement]
    return [requirement]


def _received(prefix: Path) -> tuple[str, list[str]]:
    """Of uv's receipt: what Dyno was installed from, and what came with it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    main, others = DISTRIBUTION, []
    with suppress(tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        for entry in tomllib.loads(_text(prefix / _RECEIPT))["tool"]["requirements"]:
            extras = f"[{','.join(entry['extras'])}]" if entry.get("extras") else ""
            if entry["name"] == DISTRIBUTION:
                place = next((entry[key] for key in _PLACES if key in entry), DISTRIBUTION)
                main = f"{place}{extras}"
            else:
                others.append(f"{entry['name']}{extras}{entry.get('specifier', '')}")
    return main, others


def _injected(prefix: Path) -> str:
    """What pipx calls Dyno's environment."""
    with suppress(ValueError, KeyError, TypeError):
        told = json.loads(_text(prefix / _METADATA))["main_package"]
        return shlex.quote(f"{told['package']}{told.get('suffix') or ''}")
    return DISTRIBUTION


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
