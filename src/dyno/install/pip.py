"""Installs Python packages with pip. Packages in the lock file get its exact versions, and are checked by
its hashes."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import packaging
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from dyno.host import installation as ours
from dyno.install.programs import InstallError, run

FILE = Path(__file__).with_name("engines.lock")
"""Path of the lock file, which `make lock` writes."""
HASH, VIA = "--hash=", "# via "


class Locked(NamedTuple):
    """A package at its locked version."""

    requirement: Requirement
    """Name, version and locked extras: `redis[hiredis]==8.1.0`."""
    hashes: tuple[str, ...]
    parents: frozenset[str]
    """Names of the packages that require this package."""

    @property
    def version(self) -> str:
        return next(iter(self.requirement.specifier)).version

    def meets(self, wanted: Requirement) -> bool:
        fits = wanted.specifier.contains(self.version, prereleases=True)
        return fits and wanted.url is None and wanted.extras <= self.requirement.extras

    def line(self) -> str:
        """Returns the package's line in a requirements file. It has the hashes, but no marker, which is known to
        apply."""
        extras = f"[{','.join(sorted(self.requirement.extras))}]" if self.requirement.extras else ""
        return " ".join((f"{self.requirement.name}{extras}=={self.version}", *(HASH + each for each in self.hashes)))


Lock = Mapping[NormalizedName, Locked]


def read_lock(markers: Mapping[str, str], held: Mapping[NormalizedName, str]) -> Lock:
    """Returns the packages, by name, that are locked for an interpreter with these environment markers.

    Versions in `held` are preferred, even if they were locked for another version of Python.
    """
    packages: dict[NormalizedName, Locked] = {}
    # Packages start in the first column; hashes and parents are indented.
    for entry in FILE.read_text().replace("\n ", " ").splitlines():
        specification, _, parents = entry.replace("\\", "").partition(VIA)
        text, *hashes = (part.strip() for part in specification.split(HASH))
        requirement = Requirement(text)
        names = frozenset(canonicalize_name(parent.strip()) for parent in parents.split(","))
        package, name = Locked(requirement, tuple(hashes), names), canonicalize_name(requirement.name)
        chosen = name in packages and packages[name].version == held.get(name)
        if package.version == held.get(name) or (applies(requirement, markers) and not chosen):
            packages[name] = package
    return packages


def applies(requirement: Requirement, markers: Mapping[str, str]) -> bool:
    """Returns whether an interpreter with these environment markers needs the requirement."""
    return requirement.marker is None or requirement.marker.evaluate({**markers, "extra": ""})


def closure(names: set[NormalizedName], lock: Lock) -> Lock:
    """Returns the packages with these names and all packages that they require, directly or indirectly.

    The lock file doesn't say which extra requires a package. So packages are included if any extra that Dyno uses
    requires them.
    """
    while True:
        more = {name for name, package in lock.items() if name not in names and package.parents & names}
        if not more:
            return {name: lock[name] for name in sorted(names) if name in lock}
        names = names | more


def split(
    requirements: Sequence[Requirement], lock: Lock, held: Mapping[NormalizedName, str]
) -> tuple[list[Requirement], list[Requirement]]:
    """Returns the requirements that the lock file meets, and the others. If `held` has a package's name, the package
    may have only that version."""
    met, others = [], []
    for wanted in requirements:
        name = canonicalize_name(wanted.name)
        locked = name in lock and lock[name].meets(wanted)
        if locked and all(held.get(each, one.version) == one.version for each, one in closure({name}, lock).items()):
            met.append(wanted)
        else:
            others.append(wanted)
    return met, others


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
    needed = [each for each in map(Requirement, requirements) if applies(each, markers)]
    locked = read_lock(markers, versions)
    met, others = split(needed, locked, versions)
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
    locked: Lock,
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
    needed = closure(incomplete, locked)
    pinned = [package.line() for name, package in needed.items() if name not in there or name in replaced]
    try:
        _hashed(python, [*unchanged, *pinned], options, folder)
    except InstallError as why:
        if not UNMET.search(why.output):
            raise
        whole = closure(roots, locked)
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
