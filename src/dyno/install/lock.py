"""The lock file of the engines' Python packages: exact versions, and the hashes of their files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

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


def read(markers: Mapping[str, str], held: Mapping[NormalizedName, str]) -> Lock:
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
