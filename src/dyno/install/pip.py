"""Installs Python packages with pip. Packages in the lock file get its exact versions, and are checked by
its hashes."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import packaging
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from dyno.host import installation as ours
from dyno.install.programs import InstallError, run

FILE = Path(__file__).with_name("packages.lock")
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
        pin = _with_specifier(self.requirement, f"=={self.version}")
        return " ".join((str(pin), *(HASH + each for each in self.hashes)))


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


def split_by_lock(
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
TOOLS = ("pip", "setuptools", "wheel")
"""Packages that install others, and are no version under test."""
UNMET = re.compile(r"ResolutionImpossible|--require-hashes mode")
"""Error messages of pip that mean that an installed version doesn't meet what a locked package requires."""


def install(
    python: Path,
    requirements: Sequence[str],
    say: Callable[[str], None],
    *options: str,
    held: Mapping[str, str] | None = None,
    upgrade: Sequence[Requirement] = (),
) -> dict[str, str]:
    """Installs missing requirements. Returns the versions of new packages by name. Raises InstallError.

    An installed package keeps its version, which may be the one under test, unless `upgrade` has its name; a version
    there replaces the required one. Packages in the lock file are installed in its versions and verified by hash.
    `say` receives a line about other packages, one about packages that are kept though their version isn't the
    required one, and one about packages whose version changed. `held` is for a new environment: if it has a package's
    name, the package may have only that version, and others may change.
    """
    before = list_installed(python)
    try:
        run([python, "-c", "import pip"])
    except InstallError:
        if python == Path(sys.executable) and ours.is_tool_managed():
            raise InstallError(f"there is no pip in {environment(python)}: {ours.command(requirements)}") from None
        raise InstallError(f"there is no pip in {environment(python)}; `{python} -m ensurepip` brings one") from None
    markers: dict[str, str] = json.loads(run([python, "-c", MARKERS, Path(packaging.__file__).parents[1]]))
    versions = {canonicalize_name(name): version for name, version in (held or {}).items()}
    named = {_name(each): each for each in upgrade}
    there = {canonicalize_name(name): version for name, version in before.items()}
    fixed = {name: at for name, at in there.items() if held is None and name not in {*named, *TOOLS}}
    needed = [each for each in map(Requirement, requirements) if applies(each, markers)]
    if unmet := [each for each in needed if not _fits(each, fixed)]:
        names = list(map(_name, unmet))
        kept = ", ".join(f"{name} {fixed[name]} ({each})" for name, each in zip(names, unmet, strict=True))
        say(f"kept, though another version is required: {kept}; to replace it: --upgrade {' --upgrade '.join(names)}")
    needed = [
        _with_specifier(each, f"=={fixed[_name(each)]}") if each in unmet else _apply_user_version(each, named)
        for each in needed
    ]
    locked = read_lock(markers, versions)
    met, others = split_by_lock(needed, locked, {**versions, **{name: fixed[name] for name in map(_name, unmet)}})
    with tempfile.TemporaryDirectory() as place:
        if met:
            _install_verified(python, met, locked, there, {*named}, options, Path(place), may_change=held is not None)
        verified = list_installed(python)
        if others:
            constraints = Path(place) / "constraints.txt"
            pins = {**fixed, **versions}
            lines = [f"{name}=={version}\n" for name, version in pins.items() if _is_version(version)]
            constraints.write_text("".join(lines))
            # Include requirements that are already met, so that pip respects them.
            try:
                run(_pip(python, *options, "-c", constraints, "--", *map(str, needed)), name="pip")
            except InstallError as why:
                conflict = re.search(UNMET, why.output) and held is None
                if conflict:
                    hint = "; installed packages are kept: --upgrade PACKAGE names one to replace"
                else:
                    hint = ""
                raise InstallError(f"{why}{hint}", why.output) from None
    after = list_installed(python)
    if unverified := _changed_versions(verified, after):
        say(f"not in the lock file, so not verified by hash: {', '.join(sorted(unverified))}")
    new = _changed_versions(before, after)
    changes = [f"{name} {before[name]} to {new[name]}" for name in sorted(new.keys() & before.keys())]
    # A new environment has only pip's own packages, whose changes don't matter.
    if changes and held is None:
        say(f"installed packages changed their version: {', '.join(changes)}")
    return new


def _is_version(text: str) -> bool:
    """Returns whether pip takes the version of an installed package in a list of constraints."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _name(of: Requirement) -> NormalizedName:
    return canonicalize_name(of.name)


def _fits(wanted: Requirement, fixed: Mapping[NormalizedName, str]) -> bool:
    """Returns whether a package is not installed, or may change, or has a version that is wanted."""
    version = fixed.get(_name(wanted))
    return version is None or wanted.specifier.contains(version, prereleases=True)


def _apply_user_version(wanted: Requirement, named: Mapping[NormalizedName, Requirement]) -> Requirement:
    """Returns the requirement, or if the user named another version, that of the user."""
    by_user = named.get(_name(wanted))
    if by_user is None or not by_user.specifier:
        return wanted
    return _with_specifier(wanted, str(by_user.specifier))


def _with_specifier(wanted: Requirement, specifier: str) -> Requirement:
    """Returns the requirement with its extras and another specifier, without its marker."""
    changed = Requirement(wanted.name + specifier)
    changed.extras = wanted.extras
    return changed


def _install_verified(
    python: Path,
    wanted: Sequence[Requirement],
    locked: Lock,
    there: Mapping[NormalizedName, str],
    upgrade: Collection[NormalizedName],
    options: Sequence[str],
    folder: Path,
    may_change: bool,
) -> None:
    """Installs packages of the lock file. Raises InstallError, and installs nothing, if a hash doesn't match, and if
    an installed package that is not in `upgrade` would have to change its version. `may_change`: any may change."""
    roots = {_name(each) for each in wanted}
    replaced = {
        _name(each)
        for each in wanted
        if _name(each) not in there
        or _name(each) in upgrade
        or ((may_change or _name(each) in TOOLS) and not _fits(each, there))
    }
    # The requirements of an installed package are installed too, except those that only an extra has.
    incomplete = replaced | {_name(each) for each in wanted if each.extras}
    unchanged = [str(each) for each in wanted if _name(each) not in replaced]
    needed = closure(incomplete, locked)
    pinned = [
        package.line() for name, package in needed.items() if name not in there or name in replaced or name in upgrade
    ]
    try:
        _install_with_hashes(python, [*unchanged, *pinned], options, folder)
    except InstallError as why:
        if not UNMET.search(why.output):
            raise
        whole = closure(roots, locked)
        changing = [name for name, package in whole.items() if there.get(name, package.version) != package.version]
        if others := [name for name in changing if not may_change and name not in {*upgrade, *TOOLS}]:
            changes = ", ".join(f"{name} {there[name]} to {whole[name].version}" for name in others)
            raise InstallError(
                f"installed packages would have to change: {changes}; allow it by --upgrade"
                f" {' --upgrade '.join(others)}",
                why.output,
            ) from None
        _install_with_hashes(python, [package.line() for package in whole.values()], options, folder)


def _install_with_hashes(python: Path, lines: Sequence[str], options: Sequence[str], folder: Path) -> None:
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


def _changed_versions(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in after.items() if before.get(name) != version}


def list_installed(python: Path) -> dict[str, str]:
    """Returns the version of every distribution in an interpreter's environment, by name."""
    versions: dict[str, str] = json.loads(run([python, "-c", LISTED]))
    return versions


def environment(python: Path) -> str:
    """Returns the directory of an interpreter's environment, for error messages."""
    if python == Path(sys.executable):
        return sys.prefix
    return str(python.parent.parent)
