"""Installs Python packages with pip, which resolves them. Packages in the lock file get its exact versions, and are
checked by its hashes."""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import packaging
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from dyno.host import installation as ours
from dyno.install.programs import InstallError, run

FILE = Path(__file__).with_name("engines.lock")
"""Path of the lock file, which `make lock` writes."""
HASH = "--hash="


def read_lock() -> Iterator[tuple[Requirement, tuple[str, ...]]]:
    """Yields the pins of the lock file, such as `redis[hiredis]==8.1.0`, each with its hashes. A package may have
    several, whose markers exclude each other."""
    # Packages start in the first column; hashes and parents are indented.
    for entry in FILE.read_text().replace("\n ", " ").splitlines():
        text, *hashes = (part.strip() for part in entry.partition("#")[0].replace("\\", "").split(HASH))
        yield Requirement(text), tuple(hashes)


def applies(requirement: Requirement, markers: Mapping[str, str]) -> bool:
    """Returns whether an interpreter with these environment markers needs the requirement."""
    return requirement.marker is None or requirement.marker.evaluate({**markers, "extra": ""})


def select_locked_versions(markers: Mapping[str, str]) -> dict[NormalizedName, str]:
    """Returns the locked versions for an interpreter with these environment markers, by package."""
    pins = (pin for pin, _ in read_lock() if applies(pin, markers))
    return {get_name(pin): next(iter(pin.specifier)).version for pin in pins}


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
CONFLICT = "ResolutionImpossible"
"""pip's error if packages require different versions of a package, or one that the constraints exclude."""


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
    by_user = {get_name(each): each for each in upgrade}
    fixed = {canonicalize_name(name): version for name, version in (before if held is None else held).items()}
    if held is None:
        fixed = {name: version for name, version in fixed.items() if name not in {*by_user, *TOOLS}}
    needed = list[Requirement]()
    kept = dict[NormalizedName, str]()
    for wanted in map(Requirement, requirements):
        name = get_name(wanted)
        if not applies(wanted, markers):
            continue
        if held is None and name in fixed and not wanted.specifier.contains(fixed[name], prereleases=True):
            kept[name] = f"{name} {fixed[name]} ({wanted})"
            wanted = _with_specifier(wanted, f"=={fixed[name]}")
        elif name in by_user and by_user[name].specifier:
            wanted = _with_specifier(wanted, str(by_user[name].specifier))
        needed.append(wanted)
    if kept:
        say(
            f"kept, though another version is required: {', '.join(kept.values())}; to replace it:"
            f" --upgrade {' --upgrade '.join(kept)}"
        )
    with tempfile.TemporaryDirectory() as place:
        try:
            planned = _resolve(python, needed, fixed, select_locked_versions(markers), options, Path(place))
        except InstallError as why:
            if held is None and CONFLICT in why.output:
                hint = "installed packages are kept: --upgrade PACKAGE names one to replace"
                raise InstallError(f"{why}; {hint}", why.output) from None
            raise
        if unverified := _install_resolved(python, planned, options, Path(place)):
            say(f"not in the lock file, so not verified by hash: {', '.join(sorted(unverified))}")
    after = list_installed(python)
    new = {name: version for name, version in after.items() if before.get(name) != version}
    changes = [f"{name} {before[name]} to {new[name]}" for name in sorted(new.keys() & before.keys())]
    # A new environment has only pip's own packages, whose changes don't matter.
    if changes and held is None:
        say(f"installed packages changed their version: {', '.join(changes)}")
    return new


def _resolve(
    python: Path,
    needed: Sequence[Requirement],
    fixed: Mapping[NormalizedName, str],
    locked: Mapping[NormalizedName, str],
    options: Sequence[str],
    folder: Path,
) -> dict[str, str]:
    """Returns the packages that pip would install, with their versions. `fixed` and `locked` have the only versions
    that packages may have. Locked versions don't bind packages if some requirement excludes them. Raises
    InstallError."""
    excluded = [each for each in needed if not each.specifier.contains(locked.get(get_name(each), "0"), True)]
    pins = {name: version for name, version in locked.items() if name not in set(map(get_name, excluded))}
    report = folder / "report.json"
    words = ("--dry-run", "--report", report)
    attempts = [{**pins, **fixed}]
    if excluded:
        attempts.append(dict(fixed))
    conflict = InstallError("")
    for versions in attempts:
        constraints = _constrain(versions, folder)
        try:
            run(_pip(python, *options, *words, *constraints, "--", *map(str, needed)), name="pip")
            break
        except InstallError as why:
            if CONFLICT not in why.output:
                raise
            conflict = why
    else:
        raise conflict
    resolved = json.loads(report.read_text())["install"]
    return {each["metadata"]["name"]: each["metadata"]["version"] for each in resolved}


def _constrain(pins: Mapping[NormalizedName, str], folder: Path) -> tuple[str, Path]:
    """Returns pip's option by which packages may have only these versions."""
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items() if _is_version(version)))
    return "-c", constraints


def _install_resolved(python: Path, planned: Mapping[str, str], options: Sequence[str], folder: Path) -> list[str]:
    """Installs these versions. Returns the packages that are not in the lock file. Raises InstallError, and installs
    nothing, if a hash doesn't match."""
    hashes = dict[tuple[NormalizedName, str], tuple[str, ...]]()
    for pin, of in read_lock():
        hashes[get_name(pin), next(iter(pin.specifier)).version] = of
    verified = list[str]()
    others = dict[str, str]()
    for name, version in planned.items():
        of = hashes.get((canonicalize_name(name), version), ())
        if of:
            verified.append(" ".join((f"{canonicalize_name(name)}=={version}", *(HASH + each for each in of))))
        else:
            others[name] = f"{name}=={version}"
    if verified:
        file = folder / "requirements.txt"
        file.write_text("".join(f"{line}\n" for line in verified))
        try:
            run(_pip(python, *options, "--no-deps", "--require-hashes", "-r", file), name="pip")
        except InstallError as why:
            _, mismatch, details = why.output.partition(MISMATCH)
            package = re.search(r"^\s+(\S+==\S+)", details, re.MULTILINE)
            got = re.search(r"Got\s+(\w+)", details)
            if not mismatch or package is None or got is None:
                raise
            what = f"{package[1]} has SHA-256 {got[1]}, which the lock file doesn't have for it"
            raise InstallError(f"pip refused it: {what}", why.output) from None
    if others:
        run(_pip(python, *options, "--no-deps", "--", *others.values()), name="pip")
    return list(others)


def _is_version(text: str) -> bool:
    """Returns whether pip takes the version of an installed package in a list of constraints."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def get_name(of: Requirement) -> NormalizedName:
    return canonicalize_name(of.name)


def _with_specifier(wanted: Requirement, specifier: str) -> Requirement:
    """Returns the requirement with its extras and another specifier."""
    changed = Requirement(wanted.name + specifier)
    changed.extras = wanted.extras
    return changed


def _pip(python: Path, *words: str | Path) -> list[str | Path]:
    return [python, "-m", "pip", "install", *QUIET, *words]


def list_installed(python: Path) -> dict[str, str]:
    """Returns the version of every distribution in an interpreter's environment, by name."""
    versions: dict[str, str] = json.loads(run([python, "-c", LISTED]))
    return versions


def environment(python: Path) -> str:
    """Returns the directory of an interpreter's environment, for error messages."""
    if python == Path(sys.executable):
        return sys.prefix
    return str(python.parent.parent)
