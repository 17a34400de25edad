"""Installs Python packages with pip. Packages in the lock file get its versions and are checked by its hashes."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import packaging
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dyno.host import installation as ours
from dyno.install import lock
from dyno.install.tools import InstallError, run

LISTED = """
import json
from importlib.metadata import distributions
print(json.dumps({dist.metadata["Name"]: dist.version for dist in distributions() if dist.metadata["Name"]}))
"""
MARKERS = """
import json, sys
sys.path.append(sys.argv[1])
from packaging.markers import default_environment
print(json.dumps(default_environment()))
"""
QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")
MISMATCH = "DO NOT MATCH THE HASHES"
UNMET = re.compile(r"ResolutionImpossible|--require-hashes mode")
"""Error messages of pip that mean that an installed version doesn't meet what a locked package requires."""


def install(
    python: Path,
    requirements: Sequence[str],
    say: Callable[[str], None],
    *options: str,
    held: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Installs missing requirements. Returns the versions of new packages by name. Raises InstallError.

    Packages in the lock file are installed in its versions and verified by hash. `say` receives a line about other
    packages, and one about packages whose version changed. `held` is for a new environment: if it has a package's
    name, the package may have only that version.
    """
    before = installed(python)
    try:
        run([python, "-c", "import pip"])
    except InstallError:
        if python == Path(sys.executable) and ours.apart():
            raise InstallError(f"there is no pip in {environment(python)}: {ours.command(requirements)}") from None
        raise InstallError(f"there is no pip in {environment(python)}; `{python} -m ensurepip` brings one") from None
    markers: dict[str, str] = json.loads(run([python, "-c", MARKERS, Path(packaging.__file__).parents[1]]))
    versions = {canonicalize_name(name): version for name, version in (held or {}).items()}
    needed = [each for each in map(Requirement, requirements) if lock.applies(each, markers)]
    locked = lock.read(markers, versions)
    met, others = lock.split(needed, locked, versions)
    with tempfile.TemporaryDirectory() as place:
        if met:
            _verified(python, met, locked, before, options, Path(place))
        verified = installed(python)
        if others:
            constraints = Path(place) / "constraints.txt"
            constraints.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
            # Include requirements that are already met, so that pip respects them.
            run(_pip(python, *options, "-c", constraints, "--", *map(str, needed)), name="pip")
    after = installed(python)
    if unverified := _new(verified, after):
        say(f"not in the lock file, so not verified by hash: {', '.join(sorted(unverified))}")
    new = _new(before, after)
    changes = [f"{name} {before[name]} to {new[name]}" for name in sorted(new.keys() & before.keys())]
    # A new environment has only pip's own packages, whose changes don't matter.
    if changes and held is None:
        say(f"installed packages changed their version: {', '.join(changes)}")
    return new


def _verified(
    python: Path,
    wanted: Sequence[Requirement],
    locked: lock.Lock,
    before: Mapping[str, str],
    options: Sequence[str],
    folder: Path,
) -> None:
    """Installs packages of the lock file. Raises InstallError, and installs nothing, if a hash doesn't match.

    Installed packages keep their version, unless pip finds that another package requires a different one.
    """
    there = {canonicalize_name(name): version for name, version in before.items()}

    def satisfied(each: Requirement) -> bool:
        version = there.get(canonicalize_name(each.name))
        return version is not None and each.specifier.contains(version, prereleases=True)

    roots = {canonicalize_name(each.name) for each in wanted}
    replaced = {canonicalize_name(each.name) for each in wanted if not satisfied(each)}
    # The requirements of an installed package are installed too, except those that only an extra has.
    incomplete = replaced | {canonicalize_name(each.name) for each in wanted if each.extras}
    unchanged = [str(each) for each in wanted if canonicalize_name(each.name) not in replaced]
    needed = lock.closure(incomplete, locked)
    pinned = [package.line() for name, package in needed.items() if name not in there or name in replaced]
    try:
        _hashed(python, [*unchanged, *pinned], options, folder)
    except InstallError as why:
        if not UNMET.search(why.output):
            raise
        whole = lock.closure(roots, locked)
        _hashed(python, [package.line() for package in whole.values()], options, folder)


def _hashed(python: Path, lines: Sequence[str], options: Sequence[str], folder: Path) -> None:
    """Installs the lines of a requirements file. Lines of packages that are not installed yet have hashes. Raises
    InstallError."""
    file = folder / "requirements.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    try:
        run(_pip(python, *options, "--require-hashes", "-r", file), name="pip")
    except InstallError as why:
        _, mismatch, details = why.output.partition(MISMATCH)
        package, got = re.search(r"^\s+(\S+==\S+)", details, re.MULTILINE), re.search(r"Got\s+(\w+)", details)
        if not mismatch or package is None or got is None:
            raise
        what = f"{package[1]} has SHA-256 {got[1]}, which the lock file doesn't have for it"
        raise InstallError(f"pip refused it: {what}", why.output) from None


def _pip(python: Path, *words: str | Path) -> list[str | Path]:
    return [python, "-m", "pip", "install", *QUIET, *words]


def _new(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in after.items() if before.get(name) != version}


def installed(python: Path) -> dict[str, str]:
    """Returns the version of every distribution in an interpreter's environment, by name."""
    versions: dict[str, str] = json.loads(run([python, "-c", LISTED]))
    return versions


def environment(python: Path) -> str:
    """Returns the directory of an interpreter's environment, for error messages."""
    return sys.prefix if python == Path(sys.executable) else str(python.parent.parent)
