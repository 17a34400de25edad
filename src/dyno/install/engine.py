"""Installs what an engine lacks: a virtual environment of another Python, which has this Dyno and what the engine
requires; Python packages, programs and system packages."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions, entry_points
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import dyno
from dyno.contracts.engine import EngineSpec
from dyno.contracts.programs import GoModule
from dyno.host import interpreters
from dyno.install import pip, programs
from dyno.install.programs import InstallError, run

Step = Callable[[], str]
"""A step of an installation. It returns what it did, or an empty text if there was nothing to do, and raises
InstallError."""

APT_SCRIPT = Path(__file__).with_name("apt.sh")


def install(
    spec: EngineSpec,
    yes: bool,
    groups: tuple[str, ...],
    say: Callable[[str], None],
    upgrade: Sequence[Requirement] = (),
) -> bool:
    """Installs what the engine lacks, and reports each step in one line. Returns whether the engine can run now.

    If a step fails, the others are still done. With `yes`, system packages are installed too. Installed Python
    packages keep their version unless `upgrade` names them.
    """
    complete = True
    for step in _steps(spec, yes, groups, say, upgrade):
        try:
            if done := step():
                say(done)
        except InstallError as why:
            complete = False
            say(f"not installed: {why}")
        interpreters.look_again()
    lacking = next(filter(None, (spec.reduce_to_port(port).explain_unavailability() for port in spec.ports)), None)
    if complete:
        say(lacking or "ready")
    return complete and not lacking


def install_extra(packages: Sequence[str], say: Callable[[str], None], upgrade: Sequence[Requirement] = ()) -> bool:
    """Installs packages that a suite's values need, like `install`. Returns whether it succeeded."""
    try:
        say(_describe_installed(pip.install(Path(sys.executable), packages, say, upgrade=upgrade)) or "ready")
    except InstallError as why:
        say(f"not installed: {why}")
        return False
    return True


def _steps(
    spec: EngineSpec,
    yes: bool,
    groups: tuple[str, ...],
    say: Callable[[str], None],
    upgrade: Sequence[Requirement],
) -> Iterator[Step]:
    needed = spec.installation
    for port in spec.ports.values():
        needed += port.installation
    requires = tuple(dict.fromkeys(needed.requires))
    if spec.installation.python:
        yield lambda: _describe_installed(make(spec, requires, groups, say, upgrade))
    elif requires:
        yield lambda: _describe_installed(pip.install(Path(sys.executable), requires, say, upgrade=upgrade))
    # Install the packages first if Maven, which fetches programs, may be one of them.
    fetched = [each for each in needed.programs if not isinstance(each.source, GoModule) and each.path() is None]
    first = bool(spec.installation.packages and fetched) and shutil.which("mvn") is None
    if first:
        yield lambda: _packages(spec, yes)
    for program in needed.programs:
        yield lambda program=program: programs.install(program, say)  # type: ignore[misc]
    own = (spec.reduce_to_port(name) for name, port in spec.ports.items() if port.installation.packages)
    for each in (*([] if first else [spec]), *own):
        if each.installation.packages:
            yield lambda each=each: _packages(each, yes)  # type: ignore[misc]


def _describe_installed(versions: dict[str, str]) -> str:
    return (versions and f"installed {', '.join(f'{name} {at}' for name, at in sorted(versions.items()))}") or ""


def _packages(spec: EngineSpec, yes: bool) -> str:
    """If the engine still lacks something, installs Debian packages, without starting their services."""
    if spec.find_missing_modules() or spec.find_unmet_need() is None:
        return ""
    packages = spec.installation.packages
    listed = ", ".join(packages)
    command = " ".join(["apt-get install -y", *packages])
    if shutil.which("apt-get") is None:
        raise InstallError(f"apt-get not found; on Debian, install {listed}")
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and not (shutil.which("sudo") and subprocess.run([*root, "true"], capture_output=True).returncode == 0):
        raise InstallError(f"an administrator can install it: {command}")
    if not yes:
        raise InstallError(f"to be installed by {command}, which --yes does")
    script = ["env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", APT_SCRIPT.read_text(), "sh", *packages]
    run([*root, *script], name="apt-get")
    return f"installed {listed}"


DISTRIBUTION = "dyno-bench"
VERSION = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
FOLDER = "import sysconfig; print(sysconfig.get_path('purelib'))"


def make(
    spec: EngineSpec,
    requires: Sequence[str],
    groups: Sequence[str],
    say: Callable[[str], None],
    upgrade: Sequence[Requirement] = (),
) -> dict[str, str]:
    """Creates the engine's environment, or installs what it lacks. Returns the names and versions of what was
    installed. `groups` are the entry point groups of plug-ins, which are linked into the environment. The engine's
    build requirements are installed first, and the others then built without isolation. Raises InstallError."""

    def install_required(python: Path, held: Mapping[str, str] | None = None) -> dict[str, str]:
        add = partial(pip.install, python, held=held, upgrade=upgrade)
        if not spec.installation.builds:
            if requires:
                return add(requires, say)
            return {}
        return add(spec.installation.builds, say) | add(requires, say, "--no-build-isolation")

    version = spec.installation.python
    python = spec.interpreter()
    home = interpreters.home(spec.name, version)
    if python is not None:
        _link(python, groups)
        return install_required(python)
    say(f"making an environment of Python {version}")
    base = find(version)
    # Create the environment in its final place, because its scripts contain their path.
    shutil.rmtree(home, ignore_errors=True)
    try:
        run([base, "-m", "venv", home])
        python = home / "bin" / "python"
        new = _core(python, version, say)
        # In a new environment, the engine's requirements come before the versions that Dyno has here.
        new |= install_required(python, held={})
        _link(python, groups)
        (home / interpreters.MARK).touch()
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return new


def find(version: str) -> Path:
    """Returns an interpreter of that version that can create environments. Raises InstallError."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = [sys.executable, shutil.which(f"python{version}")]
    candidates += map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True))
    if uv := shutil.which("uv"):
        with suppress(InstallError):
            candidates.append(run([uv, "python", "find", "--no-project", version]).strip())
    for path in filter(None, candidates):
        with suppress(InstallError, OSError):
            if run([path, "-c", VERSION]).strip() == version:
                return Path(path)
    where = f"neither python{version} on the PATH, nor pyenv's or uv's"
    raise InstallError(f"there is no Python {version} with venv here: {where}")


def _core(python: Path, version: str, say: Callable[[str], None]) -> dict[str, str]:
    """Installs what Dyno requires. Packages have the same versions as here, if these come from a package index and
    support that Python."""
    try:
        # The list includes requirements of extras, which pip ignores.
        needed = distribution(DISTRIBUTION).requires or []
    except PackageNotFoundError:
        raise InstallError(
            f"Dyno runs without having been installed: there is no distribution {DISTRIBUTION}"
        ) from None
    here: dict[str, str | None] = {}
    for dist in distributions():
        about = dist.metadata
        # The package importlib_metadata, if a library has imported it, raises KeyError for a missing key.
        name = about["Name"]
        wanted = SpecifierSet((about["Requires-Python"] or "") if "Requires-Python" in about else "")
        held = dist.read_text("direct_url.json") is None and wanted.contains(f"{version}.0")
        # If several distributions have the same name, the first on the path is imported.
        here.setdefault(name, dist.version if held else None)
    versions = {name: at for name, at in here.items() if at is not None}
    # Don't compile modules now: they are compiled when they are imported, and most never are.
    return pip.install(python, needed, say, "--no-compile", held=versions)


def _link(python: Path, groups: Sequence[str]) -> None:
    """Makes Dyno and its plug-ins importable in the environment, by links to the files of a wheel or a checkout.

    Dyno's native module supports every version of Python. A plug-in's native module is ignored if it is for another
    version.
    """
    there = Path(run([python, "-c", FOLDER]).strip())
    for path in [Path(dyno.__file__).parent, *_plugins(groups)]:
        link = there / path.name
        if link.is_symlink() or not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path.resolve())


def _plugins(groups: Sequence[str]) -> Iterator[Path]:
    """Yields the paths that plug-ins have installed: modules, packages and metadata."""
    plugins: dict[str, Distribution] = {}
    for group in groups:
        for entry in entry_points(group=group):
            if entry.dist is not None:
                plugins[entry.dist.metadata["Name"]] = entry.dist
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    for dist in plugins.values():
        for name in dict.fromkeys(file.parts[0] for file in dist.files or ()):
            path = Path(str(dist.locate_file(name)))
            # Modules on PYTHONPATH can be imported in the environment without a link.
            if name not in ("..", "__pycache__") and path.exists() and path.parent.resolve() in folders:
                yield path
