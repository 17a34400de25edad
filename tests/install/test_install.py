"""Tests `dyno install`: what it installs, and that a failed installation leaves nothing behind. No test uses the
network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import venv
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from needed import unavailable
from packaging.markers import default_environment
from packaging.requirements import Requirement
from shell import Shell, is_one_line, wait_for

import dyno
from dyno import registry
from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Refused
from dyno.contracts.programs import GoModule, Jars, Program
from dyno.install import pip
from dyno.install.engine import install, make
from dyno.install.programs import InstallError, run
from dyno.servers.program_option import ServerProgram

pytestmark = pytest.mark.usefixtures("processes")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(dyno.__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of Dyno's cache directory, which doesn't exist yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "cache" / "dyno"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a shell script with a program's name to a directory that comes first on the PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return put


def engine(ports: Mapping[str, PortSpec] | None = None, **needed: Any) -> EngineSpec:
    """An engine that needs this: fields of `Installation`. Its port `records` needs nothing."""
    sqlite = registry.engine("sqlite")
    return replace(
        sqlite,
        name="toy",
        ports=ports or {"records": sqlite.ports["records"]},
        installation=replace(sqlite.installation, **needed),
    )


def told(spec: EngineSpec, yes: bool = False) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return install(spec, yes, (), lines.append), lines


# -- the command ------------------------------------------------------------------------------------------------


def test_engine_without_requirements_is_ready(shell: Shell) -> None:
    assert shell.dyno("install", "nullkv", "null", "nullkv") == (0, "nullkv: ready\nnull: ready\n", "")


def test_unknown_engine_is_refused_before_any_installation(shell: Shell) -> None:
    ended = shell.run_here("install", "null", "postgresq")
    assert ended == (2, "", "dyno: engine postgresq is not known; did you mean postgresql?\n")
    for words in ((), ("null", "--upgrade", "dyno toy")):
        ended = shell.run_here("install", *words)
        assert ended.status == 2 and is_one_line(ended.err)
    assert "expected packages such as" in ended.err


def test_install_accepts_a_suite_name(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    named = "zstandard==0.25"

    def record(
        python: Path, requirements: Sequence[str], say: object, upgrade: Sequence[Requirement]
    ) -> dict[str, str]:
        assert (python, upgrade) == (Path(sys.executable), [Requirement(named)])
        installed.extend(requirements)
        return {"zstandard": "0.25"}

    monkeypatch.setattr(pip, "install", record)
    ended = shell.run_here("install", "compression", "--upgrade", named)
    assert ended == (0, "compression: installed zstandard 0.25\n", "")
    assert "zstandard" in {Requirement(each).name for each in installed}


def test_interrupted_install_leaves_no_partial_program(shell: Shell, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "go").write_text("#!/bin/sh\nsleep 1000 &\ntouch started\nwait\n")
    (tmp_path / "go").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    shell.given = {"XDG_CACHE_HOME": str(cache.parent), "PATH": path}
    # A replacement for pip, which finds nothing to install.
    (tmp_path / "pip.py").touch()
    shell.plugins = [tmp_path]
    if registry.engine("ferretdb").find_missing_modules():
        unavailable("pymongo is not installed")
    with shell.started("install", "ferretdb") as process:
        assert wait_for(lambda: list(cache.rglob("started")))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert shell.strays() == []
    assert (process.returncode, err) == (130, "dyno: interrupted\n")
    assert out == "ferretdb: building ferretdb 1.24.0\n"
    assert list((cache / "programs").iterdir()) == []


# Replacement for pip. Dyno runs it by `-m pip`, and imports it to check whether pip is installed.
PIP = """
import pathlib, subprocess, time
if __name__ == "__main__":
    subprocess.Popen(["sleep", "1000"])
    pathlib.Path("started").touch()
    time.sleep(1000)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_pip_and_its_children_end_with_the_command(shell: Shell, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "stand-in").mkdir()
    (tmp_path / "stand-in" / "pip.py").write_text(PIP)
    shell.plugins = [tmp_path / "stand-in"]
    with shell.started("install", "lmdb") as process:
        assert wait_for((shell.home / "started").exists)
        process.send_signal(number)
        process.communicate(timeout=100)
        assert wait_for(lambda: not shell.strays())
    assert process.returncode == (-number if number is signal.SIGKILL else 130)


# -- declarations -----------------------------------------------------------------------------------------------


HUGE = {"cudf", "cupy", "dask_cupy", "torch"}
"""Engines with untested packages of several gigabytes. An extra for each would add them all to the lock file."""


def test_extras_match_the_requirements_declared_by_engines() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras: Mapping[str, list[str]] = project["optional-dependencies"]

    def whole(name: str) -> set[str]:
        found = set()
        for requirement in extras[name]:
            own = re.fullmatch(rf"{project['name']}\[(.*)\]", requirement)
            found |= {each for other in own[1].split(",") for each in whole(other)} if own else {requirement}
        return found

    # An engine with its own interpreter can't be installed for this one, so it has no extra.
    needed = {spec.name: spec.installation for spec in registry.engines() if ours(spec) and spec.name not in HUGE}
    declared = {name: set(each.requires) for name, each in needed.items() if each.requires and not each.python}
    assert {"lmdb", "valkey", "mariadb"} <= declared.keys()
    assert {name: whole(name) for name in declared} == declared


def ours(spec: EngineSpec) -> bool:
    """Returns whether the engine is one of Dyno's, not a plug-in's."""
    return spec.name in registry.find_own("engine")


def test_missing_library_remedy_is_dyno_install() -> None:
    modules = {spec.name: set(spec.installation.modules) for spec in registry.engines()}
    libraries = {name for name, of in modules.items() if of - set(sys.stdlib_module_names)}
    without = {name for name in libraries if registry.engine(name).remedy != f"dyno install {name}"}
    assert "lmdb" in libraries and without == set()


# -- Python packages --------------------------------------------------------------------------------------------


def wheel(folder: Path, name: str, version: str, requires: str = "", text: str = "") -> str:
    """Makes a wheel. Returns its SHA-256."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}-{version}-py3-none-any.whl"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    about = f"{name}-{version}.dist-info"
    texts = {
        f"{name}.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(file, "w") as opened:
        for path, content in texts.items():
            opened.writestr(path, content)
    return hashlib.sha256(file.read_bytes()).hexdigest()


PLUGIN = """
from dataclasses import replace
from dyno.contracts.installation import Installation
from dyno.engines.sqlite import ENGINE as SQLITE
PORTS = {"records": SQLITE.ports["records"]}
ENGINE = replace(SQLITE, name="toy", ports=PORTS, installation=Installation(("dyno_toy",), ("dyno_toy>=2",)))
"""


@pytest.fixture
def own(shell: Shell, tmp_path: Path) -> str:
    """Path of Python in a new environment. It has all packages of this environment, and a plug-in engine that lacks
    its library, dyno_toy."""
    home = tmp_path / "environment"
    shell.sh(sys.executable, "-m", "venv", "--without-pip", home)
    (site,) = home.glob("lib/python*/site-packages")
    paths = [Path(dyno.__file__).parents[1], *(path for path in sys.path if path.endswith("-packages"))]
    (site / "here.pth").write_text("\n".join(map(str, paths)))
    (site / "toy.py").write_text(PLUGIN)
    about = site / "toy-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[dyno.engines]\ntoy = toy:ENGINE\n")
    wheel(tmp_path / "wheels", "dyno_toy", "2.5")
    shell.given = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    return str(home / "bin" / "python")


def test_a_library_is_installed_into_the_running_environment(own: str, shell: Shell) -> None:
    run = ("run", "records", "-e", "toy", "-p", "records=10", "--samples", "1", "--phases", "rand-key")
    refused = shell.sh(own, "-m", "dyno", *run)
    assert refused == (2, "", "dyno: engine toy needs dyno_toy: dyno install toy\n")
    unverified = "toy: not in the lock file, so not verified by hash: dyno_toy\n"
    installed = f"{unverified}toy: installed dyno_toy 2.5\ntoy: ready\n"
    assert shell.sh(own, "-m", "dyno", "install", "toy") == (0, installed, "")
    assert shell.sh(own, "-m", "dyno", *run).status == 0


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of Python in an environment with pip only. The lock file has dyno_toy and its requirement, dyno_base."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    origin = find_spec("pip")
    assert origin is not None and origin.origin is not None
    (site / "pip").symlink_to(Path(origin.origin).parent)
    wheels = tmp_path / "wheels"
    toy = wheel(wheels, "dyno_toy", "2.5", "dyno_base>=2")
    base = wheel(wheels, "dyno_base", "2.2")
    # Versions later and earlier than those in the lock file.
    wheel(wheels, "dyno_toy", "3", "dyno_base>=2")
    wheel(wheels, "dyno_toy", "1.1")
    wheel(wheels, "dyno_base", "3")
    wheel(wheels, "dyno_base", "1")
    lock = tmp_path / "packages.lock"
    lock.write_text(
        f"dyno-base==1 ; python_full_version < '3' \\\n    --hash=sha256:{'0' * 64}\n    # via dyno-toy\n"
        f"dyno-base==2.2 ; python_full_version >= '3' \\\n    --hash=sha256:{base}\n    # via dyno-toy\n"
        f"dyno-toy==2.5 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{toy}\n    # via dyno-bench\n"
    )
    monkeypatch.setattr(pip, "FILE", lock)
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(wheels)), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", value)
    return home / "bin" / "python"


def install_toy(python: Path, *upgrade: str) -> tuple[dict[str, str], list[str]]:
    """Installs what the engine `toy` requires. Returns the new versions and the messages."""
    said: list[str] = []
    new = pip.install(python, ["dyno_toy>=2"], said.append, upgrade=[Requirement(each) for each in upgrade])
    return new, said


def test_locked_versions_of_package_and_dependencies_are_installed(locked: Path) -> None:
    versions = {"dyno_toy": "2.5", "dyno_base": "2.2"}
    assert install_toy(locked) == (versions, [])
    assert pip.list_installed(locked) == versions


@pytest.mark.parametrize("name", ["dyno_toy", "dyno_base"])
def test_package_with_wrong_hash_aborts_the_installation(name: str, locked: Path, tmp_path: Path) -> None:
    version = {"dyno_toy": "2.5", "dyno_base": "2.2"}[name]
    other = wheel(tmp_path / "wheels", name, version, "dyno_base>=2" if name == "dyno_toy" else "", "# exchanged")
    with pytest.raises(InstallError) as error:
        install_toy(locked)
    assert f"{name.replace('_', '-')}=={version} has SHA-256 {other}" in str(error.value)
    assert "\n" not in str(error.value)
    assert pip.list_installed(locked) == {}


def test_sufficient_installed_version_is_kept(locked: Path) -> None:
    run([locked, "-m", "pip", "install", "--quiet", "--no-deps", "dyno_base==3"])
    assert install_toy(locked) == ({"dyno_toy": "2.5"}, [])
    # An installed version of the engine's own library is kept too.
    run([locked, "-m", "pip", "install", "--quiet", "--no-deps", "dyno_toy==3"])
    assert install_toy(locked) == ({}, [])
    assert pip.list_installed(locked) == {"dyno_toy": "3", "dyno_base": "3"}


def test_installed_requirement_changes_only_if_named(locked: Path) -> None:
    run([locked, "-m", "pip", "install", "--quiet", "dyno_base==1"])
    changes = re.escape("would have to change: dyno-base 1 to 2.2; allow it by --upgrade dyno-base")
    with pytest.raises(InstallError, match=changes):
        install_toy(locked)
    assert pip.list_installed(locked) == {"dyno_base": "1"}
    new, (changed,) = install_toy(locked, "dyno_base")
    assert new == {"dyno_base": "2.2", "dyno_toy": "2.5"}
    assert "dyno_base 1 to 2.2" in changed


@pytest.mark.claim("`dyno install` replaces no installed Python package that the user doesn't name")
def test_version_under_test_is_kept(locked: Path) -> None:
    run([locked, "-m", "pip", "install", "--quiet", "--no-deps", "dyno_toy==1.1"])
    kept = "kept, though another version is required: dyno-toy 1.1 (dyno_toy>=2); to replace it: --upgrade dyno-toy"
    assert install_toy(locked) == ({}, [kept])
    new, said = install_toy(locked, "dyno_toy==3")
    assert new["dyno_toy"] == "3" and any("dyno_toy 1.1 to 3" in line for line in said)


def test_remedy_installs_only_the_missing_package() -> None:
    port = PortSpec(
        "toy:Port", installation=Installation(modules=("absent_package",), requires=("absent-package>=15",))
    )
    spec = engine(modules=("click",), requires=("click>=99",), ports={"records": port}).reduce_to_port("records")
    remedy = (spec.explain_unavailability() or "").partition(": ")[2]
    assert "absent-package>=15" in remedy and "click" not in remedy and "dyno install" not in remedy
    # If the engine's own library is missing, all is installed.
    own = engine(modules=("absent_own",), requires=("absent-own>=1",), ports={"records": port}).reduce_to_port(
        "records"
    )
    assert own.remedy == "dyno install toy"


UNLOCKED = {"cudf-cu12>=24.10", "cupy-cuda12x>=13", "torch>=2.0", "pyspark==4.3.0", "wendelin.core==0.13"}
"""Requirements of engines that are not in the lock file: packages of gigabytes, and packages without an extra."""


def test_lock_file_covers_requirements_of_engines() -> None:
    unlocked = set()
    environment = {name: str(value) for name, value in default_environment().items()}
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        markers = {**environment, "python_version": version, "python_full_version": f"{version}.4"}
        packages = pip.read_lock(markers, {})
        assert all(package.hashes for package in packages.values())
        for spec in filter(ours, registry.engines()):
            if spec.installation.python in ("", version):
                needed = map(
                    Requirement,
                    {each for port in spec.ports for each in spec.reduce_to_port(port).installation.requires},
                )
                applied = [each for each in needed if pip.applies(each, markers)]
                unlocked |= {str(each) for each in pip.split_by_lock(applied, packages, {})[1]}
    assert unlocked == UNLOCKED


def test_lock_file_contains_only_pins_and_hashes() -> None:
    requirement = r"[a-z0-9][a-z0-9-]*(\[[a-z, ]+\])?==[\w.]+( ; [\w.*'<>=! ]+)? \\"
    line = re.compile(rf"{requirement}|    --hash=sha256:[0-9a-f]{{64}}( \\)?|    # via [a-z0-9-]+(, [a-z0-9-]+)*")
    lines = pip.FILE.read_text().splitlines()
    assert len(lines) > 1000
    assert [each for each in lines if not line.fullmatch(each)] == []


def test_build_requirements_are_installed_before_the_library(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[list[str], bool]] = []

    def install(
        python: Path, requirements: Sequence[str], say: object, *options: str, **more: object
    ) -> dict[str, str]:
        asked.append((list(requirements), "--no-build-isolation" in options))
        return {}

    monkeypatch.setattr(pip, "install", install)
    version = "{}.{}".format(*sys.version_info)
    spec = engine(python=version, builds=("toy-builder<2",))
    make(spec, ("toy",), (), print)
    core, *rest = asked
    assert any(requirement.startswith("numpy") for requirement in core[0])
    assert rest == [(["toy-builder<2"], False), (["toy"], True)]
    # The environment exists now.
    asked.clear()
    make(engine(python=version), ("toy",), (), print)
    assert asked == [(["toy"], False)]


def test_unavailable_library_is_reported_and_others_proceed(
    locked: Path, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path / "wheels")
    (tmp_path / "wheels").mkdir()
    with pytest.raises(InstallError, match=r"^pip failed: .*dyno-base") as error:
        install_toy(locked)

    def fail(*_: object, **__: object) -> None:
        raise error.value

    monkeypatch.setattr(pip, "install", fail)
    said = f"lmdb: not installed: {error.value}\nnull: ready\n"
    assert shell.run_here("install", "lmdb", "null") == (1, said, "")


def test_missing_pip_is_reported(own: str, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "pip.py").write_text("raise ImportError")
    shell.plugins = [tmp_path / "none"]
    status, out, _ = shell.sh(own, "-m", "dyno", "install", "toy")
    assert status == 1 and is_one_line(out)
    assert out.startswith(f"toy: not installed: there is no pip in {tmp_path / 'environment'}; ")


# -- programs ---------------------------------------------------------------------------------------------------

# The source imports no package of Go's library, which would have to be compiled first.
SOURCE = "package main\n\nfunc main() { println(Name) }\n"


def executable(pinned: Program) -> str:
    """Returns the path of the program that a server starts."""
    return ServerProgram("toy", "", names=(pinned.name,), pinned=pinned).executable()


MODULE = {"go.mod": "module example.org/toy\n\ngo 1.18\n", "cmd/toy/main.go": SOURCE}


def go_sum(files: Mapping[str, str]) -> str:
    """Returns Go's hash of a module: the hash of its files' hashes, sorted by name."""
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items())]
    return "h1:" + base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()


@pytest.fixture
def toy(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A Go program whose module is fetched from a directory."""
    if shutil.which("go") is None:
        unavailable("Go is not installed")
    named = {f"example.org/toy@v1.0.0/{name}": text for name, text in MODULE.items()}
    versions = tmp_path / "modules" / "example.org" / "toy" / "@v"
    versions.mkdir(parents=True)
    (versions / "v1.0.0.info").write_text(json.dumps({"Version": "v1.0.0"}))
    (versions / "v1.0.0.mod").write_text(MODULE["go.mod"])
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as file:
        for name, text in named.items():
            file.writestr(name, text)
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path / 'modules'}")
    monkeypatch.setenv("GONOSUMDB", "*")
    files = {"cmd/toy/name.go": 'package main\n\nconst Name = "toy"\n'}
    return Program("toy", "1.0.0", GoModule("example.org/toy", "v1.0.0", go_sum(named), "./cmd/toy", "1.18", files))


def exchange(file: Path) -> None:
    """Changes the content, but neither the size nor the modification time."""
    times = file.stat()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_go_program_is_built_once_and_refused_if_tampered_with(toy: Program, cache: Path, shell: Shell) -> None:
    built = cache / "programs" / "toy-1.0.0" / "toy"
    spec = engine(programs=(toy,))
    assert told(spec) == (True, ["building toy 1.0.0", f"built {built}", "ready"])
    assert toy.path() == built and shell.sh(built) == (0, "", "toy\n")
    assert [path for path in cache.rglob("*") if path.is_file()] == [built]
    assert told(spec) == (True, ["ready"]) and executable(toy) == str(built)
    # Building takes so long that only test_tampered_archive_is_refused_until_reinstalled installs again.
    exchange(built)
    with pytest.raises(Refused, match="is not what was installed"):
        executable(toy)


def test_go_module_with_wrong_checksum_is_not_built(toy: Program, cache: Path) -> None:
    assert isinstance(toy.source, GoModule)
    wrong = toy.source._replace(sum=f"h1:{'A' * 43}=")
    other = toy._replace(source=wrong)
    done, lines = told(engine(programs=(other,)))
    assert not done and lines[0] == "building toy 1.0.0"
    why = f"example.org/toy@v1.0.0 is not what was pinned: {toy.source.sum}, and not {wrong.sum}"
    assert lines[1:] == [f"not installed: {why}"]
    assert list((cache / "programs").iterdir()) == [] and other.path() is None


def test_missing_go_is_reported_with_required_version(
    toy: Program, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    done, lines = told(engine(programs=(toy,)))
    assert not done
    assert lines[1:] == ["not installed: building it needs Go 1.18 or later, and there is no go here"]
    assert list((cache / "programs").iterdir()) == []


# Replacement for Maven, which writes the requested archive to the requested directory.
MAVEN = """
for word; do
    case $word in
        -DoutputDirectory=*) folder=${word#*=} ;;
    esac
done
grep -q '<artifactId>toy</artifactId><version>1.0</version>' pom.xml || exit 1
mkdir "$folder" && printf 'an archive' >"$folder/toy-1.0.jar"
"""


def archives(contents: Mapping[str, bytes]) -> str:
    """Returns the hash of a program's archives, from their contents by name."""
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


TOY = Program("toy", "1.0", Jars(("-org.example:toy:1.0",), archives({"toy-1.0.jar": b"an archive"})))


def test_tampered_archive_is_refused_until_reinstalled(cache: Path, tools: Callable[[str, str], None]) -> None:
    tools("mvn", MAVEN)
    program = TOY
    spec = engine(programs=(program,))
    assert told(spec)[0]
    jars = program.home / "jars"
    jar = jars / "toy-1.0.jar"
    for _ in range(2):
        assert executable(program) == str(jars)
    exchange(jar)
    for _ in range(2):
        with pytest.raises(Refused, match=r"is not what was installed: .* dyno install"):
            executable(program)
    done, lines = told(spec)
    assert done and "is not what was installed" in lines[0] and jar.read_text() == "an archive"
    assert executable(program) == str(jars)


@pytest.mark.parametrize(
    "name", ["", "programs", "programs/toy-1.0", "programs/toy-1.0/jars", "programs/toy-1.0/jars/toy-1.0.jar"]
)
def test_program_writable_by_others_is_refused(cache: Path, tools: Callable[[str, str], None], name: str) -> None:
    tools("mvn", MAVEN)
    program = TOY
    assert told(engine(programs=(program,)))[0]
    place = cache / name
    place.chmod(place.stat().st_mode | 0o002)
    with pytest.raises(Refused, match=re.escape(f"chmod go-w {place}")):
        executable(program)


SEVERAL = """
for word; do
    case $word in
        -DoutputDirectory=*) folder=${word#*=} ;;
    esac
done
grep -q '<artifactId>toy</artifactId><version>1.0</version></dependency>' pom.xml || exit 1
grep -q '<artifactId>bare</artifactId><version>2</version><exclusions>' pom.xml || exit 1
mkdir "$folder" && printf 'one' >"$folder/toy-1.0.jar" && printf 'two' >"$folder/bare-2.jar"
"""


def test_maven_archives_are_accepted_only_with_pinned_hash(cache: Path, tools: Callable[[str, str], None]) -> None:
    tools("mvn", SEVERAL)
    artifacts = ("org.example:toy:1.0", "-org.example:bare:2")
    program = Program("toy", "1.0", Jars(artifacts, archives({"bare-2.jar": b"two", "toy-1.0.jar": b"one"})))
    done, said = told(engine(programs=(program,)))
    jars = cache / "programs" / "toy-1.0" / "jars"
    assert done and said == ["fetching toy 1.0", f"fetched {jars}", "ready"]
    assert program.path() == jars and sorted(file.name for file in jars.iterdir()) == ["bare-2.jar", "toy-1.0.jar"]
    shutil.rmtree(jars.parent)
    done, said = told(engine(programs=(program._replace(source=Jars(artifacts, "0" * 64)),)))
    assert not done and said[1].startswith("not installed: the archives of toy are not what was pinned: ")
    assert list((cache / "programs").iterdir()) == []


def test_package_needed_to_fetch_program_is_installed_first(
    cache: Path, tools: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools("there", MAVEN)
    tools("apt-get", f"case $* in *install*) mv {tmp_path}/tools/there {tmp_path}/tools/mvn ;; esac")
    tools("sudo", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')
    # The PATH has only these programs of the machine.
    for name in ("sh", "env", "mv", "rm", "chmod", "grep", "mkdir"):
        (tmp_path / "tools" / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    program = TOY
    needs = "needs toy: dyno install toy"
    found = engine(programs=(program,), packages=("maven",), needs=lambda _: None if program.path() else needs)
    assert told(found)[0] is False
    done, lines = told(found, yes=True)
    assert (done, lines[0], lines[-1]) == (True, "installed maven", "ready")


# -- system packages --------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, tools: Callable[[str, str], None]) -> EngineSpec:
    """An engine whose server comes from a system package. Scripts replace apt-get and sudo."""
    tools("sudo", 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"')
    tools("apt-get", f'echo "$@" >>{tmp_path}/asked; case $* in *install*) touch {tmp_path}/server ;; esac')
    return engine(
        packages=("toy-server", "toy-tools"),
        needs=lambda options: None if (tmp_path / "server").exists() else "needs toy: dyno install toy",
    )


def test_system_packages_are_only_named_without_yes_option(served: EngineSpec, tmp_path: Path) -> None:
    command = "apt-get install -y toy-server toy-tools"
    assert told(served) == (False, [f"not installed: to be installed by {command}, which --yes does"])
    assert not (tmp_path / "asked").exists()


def test_yes_option_installs_missing_system_packages(served: EngineSpec, tmp_path: Path) -> None:
    assert told(served, yes=True) == (True, ["installed toy-server, toy-tools", "ready"])
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["update -qq", "install -y -qq --no-install-recommends toy-server toy-tools"]
    assert told(served, yes=True) == (True, ["ready"])
    assert (tmp_path / "asked").read_text().splitlines() == asked


def test_unavailable_system_package_is_reported(served: EngineSpec, tools: Callable[[str, str], None]) -> None:
    tools("apt-get", "echo 'E: Unable to locate package toy-server' >&2; exit 100")
    done, lines = told(served, yes=True)
    assert not done
    assert lines == ["not installed: apt-get failed: E: Unable to locate package toy-server"]


def test_a_port_may_require_more_than_its_engine() -> None:
    ports = {
        "records": PortSpec(
            "nowhere:Nothing", installation=Installation(modules=("dyno_toy",), requires=("dyno-no-such-thing",))
        )
    }
    spec = engine(ports=ports)
    assert spec.remedy == "" and spec.explain_unavailability() is None
    lacking = spec.reduce_to_port("records").explain_unavailability()
    assert lacking is not None and re.fullmatch(r"needs dyno_toy: \S*pip install dyno-no-such-thing", lacking)
