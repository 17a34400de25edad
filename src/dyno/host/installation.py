"""Dyno's installation: its kind, the command that adds Python packages to it, and versions of packages. Installs
nothing."""

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

from dyno.host.procfs import read_text

DISTRIBUTION = "dyno-bench"
UV_TOOL = "uv tool"
PIPX = "pipx"
UV = "uv"
VENV = "venv"
SYSTEM = "system"
MANAGED = "managed"
"""Kinds of installation: by `uv tool install`; by pipx; in an environment of uv, which has no pip; in another
environment; in the system's Python; in a system's Python whose distributor forbids pip."""
_RECEIPT = "uv-receipt.toml"
_METADATA = "pipx_metadata.json"
_CONFIG = "pyvenv.cfg"
_FORBIDS = "EXTERNALLY-MANAGED"
_SOURCES = ("path", "directory", "editable", "url", "git")
"""Keys in uv's receipt for packages that don't come from a registry."""


def version(distribution: str) -> str:
    """Returns the version of an installed package: '2.1.0'. Raises ModuleNotFoundError."""
    # Import here: importlib.metadata is slow, since it imports the standard library's mail and archive modules.
    from importlib import metadata

    return metadata.version(distribution)


def detect_kind(prefix: Path, library: Path) -> str:
    """Returns the kind of installation, by the files that the installer left in the environment `prefix`.

    `library`: directory of Python's standard library.
    """
    if (prefix / _RECEIPT).is_file():
        return UV_TOOL
    if (prefix / _METADATA).is_file():
        return PIPX
    if (prefix / _CONFIG).is_file():
        made_by_uv = re.search(r"^uv\s*=", read_text(prefix / _CONFIG) or "", re.MULTILINE)
        if made_by_uv and not list((prefix / "bin").glob("pip")):
            return UV
        return VENV
    if (library / _FORBIDS).is_file():
        return MANAGED
    return SYSTEM


def command(requirements: Sequence[str], prefix: Path | None = None, library: Path | None = None) -> str:
    """Returns the command that adds packages to Dyno's environment.

    Examples: `pip install lmdb`, `pipx inject dyno-bench lmdb`.
    """
    prefix = prefix or Path(sys.prefix)
    kind = detect_kind(prefix, library or Path(sysconfig.get_path("stdlib")))
    if kind in (UV_TOOL, PIPX):
        requirements = [each for one in requirements for each in _expand_extra(one)]
    words = " ".join(map(shlex.quote, dict.fromkeys(requirements)))
    if kind == UV_TOOL:
        # Repeat earlier additions, since uv removes those that the command doesn't name.
        main, others = _receipt(prefix)
        additions = " ".join(f"--with {shlex.quote(each)}" for each in dict.fromkeys([*others, *requirements]))
        return f"uv tool install {additions} {shlex.quote(main)}"
    if kind == PIPX:
        name = DISTRIBUTION
        with suppress(ValueError, KeyError, TypeError):
            package = json.loads(read_text(prefix / _METADATA) or "")["main_package"]
            name = shlex.quote(f"{package['package']}{package.get('suffix') or ''}")
        return f"pipx inject {name} {words}"
    if kind == UV:
        return f"uv pip install --python {shlex.quote(str(prefix))} {words}"
    if kind == MANAGED:
        return f"python3 -m venv ~/dyno && ~/dyno/bin/pip install {DISTRIBUTION} {words}"
    # Use pip's path if the shell would run another pip.
    own, on_path = prefix / "bin" / "pip", shutil.which("pip")
    same = on_path is not None and Path(on_path).parent.resolve() == own.parent.resolve()
    return f"{'pip' if same or not own.exists() else shlex.quote(str(own))} install {words}"


@cache
def extra_command(name: str) -> str:
    """Returns the command that adds one of Dyno's own extras."""
    return command([f"{DISTRIBUTION}[{name}]"])


def find_excluded_requirement(modules: Sequence[str], requirements: Sequence[str], version: str) -> str | None:
    """Returns the first requirement for one of `modules` whose marker excludes Python `version`, or None."""
    for requirement in requirements:
        if ";" in requirement:
            # Import here: it is slow, and few requirements have a marker.
            from packaging.requirements import Requirement

            parsed = Requirement(requirement)
            if parsed.name in modules and parsed.marker and not parsed.marker.evaluate({"python_version": version}):
                return requirement
    return None


def absent(requirements: Sequence[str]) -> list[str]:
    """Returns the requirements whose distributions are not installed here, in whatever version."""
    missing = []
    for requirement in requirements:
        name = re.match(r"[\w.-]+", requirement)
        try:
            version(name[0] if name else requirement)
        except ModuleNotFoundError:
            missing.append(requirement)
    return missing


def only_missing(requirements: Sequence[str], ports: Sequence[Sequence[str]], more: bool) -> str:
    """Returns the command that adds an engine's missing packages; empty if `dyno install` does that.

    `ports`: requirements of each port that is asked for. `more`: whether the engine needs more than packages. If only
    the one port lacks a package, `dyno install` would also install those of the other ports.
    """
    missing = absent(requirements)
    optional = bool(missing) and len(ports) == 1 and set(ports[0]).issuperset(missing)
    if optional or (requirements and not more and is_tool_managed()):
        return command(missing or requirements)
    return ""


def is_tool_managed() -> bool:
    """Returns whether uv or pipx manages Dyno's environment. These tools remove packages that pip installs there."""
    return detect_kind(Path(sys.prefix), Path(sysconfig.get_path("stdlib"))) in (UV_TOOL, PIPX)


def extra_packages(name: str) -> list[str]:
    """Returns the packages of one of Dyno's extras; empty if it is unknown."""
    marker = re.compile(rf"""extra\s*==\s*["']{name}["']""")
    # Import here: it is slow and rarely needed.
    from importlib.metadata import requires

    with suppress(ModuleNotFoundError):
        declared = [each.partition(";") for each in requires(DISTRIBUTION) or ()]
        return [package.strip() for package, _, where in declared if marker.search(where)]
    return []


def _expand_extra(requirement: str) -> list[str]:
    """Expands one of Dyno's extras to its packages, since uv and pipx ignore a request to add Dyno itself."""
    match = re.fullmatch(rf"{DISTRIBUTION}\[([\w-]+)\]", requirement)
    return (match and extra_packages(match[1])) or [requirement]


def _receipt(prefix: Path) -> tuple[str, list[str]]:
    """Returns the source that Dyno was installed from and its additional packages, by uv's receipt."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    main, others = DISTRIBUTION, []
    with suppress(tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        for entry in tomllib.loads(read_text(prefix / _RECEIPT) or "")["tool"]["requirements"]:
            extras = ""
            if entry.get("extras"):
                extras = f"[{','.join(entry['extras'])}]"
            if entry["name"] == DISTRIBUTION:
                source = next((entry[key] for key in _SOURCES if key in entry), DISTRIBUTION)
                main = f"{source}{extras}"
            else:
                others.append(f"{entry['name']}{extras}{entry.get('specifier', '')}")
    return main, others
