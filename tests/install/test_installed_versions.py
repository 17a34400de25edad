"""Tests the installation of versions: from a folder of wheels, without a network, also by two processes and if one is
killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from shell import wait_for

from dyno.contracts import versions
from dyno.contracts.versions import MACHINE, Maven, Wheel
from dyno.install import versions as installer
from dyno.install.programs import InstallError

pytestmark = pytest.mark.usefixtures("processes")

SCRIPT = """
import sys
from dataclasses import replace
from dyno import registry
from dyno.contracts.versions import Versions, Wheel
from dyno.install.versions import install
source = Wheel("tinyserver", program="tinyserver/bin/*") if sys.argv[1] == "program" else Wheel("tinyserver")
spec = replace(registry.engine("memory"), name="tiny", versions=Versions((source,)))
sys.exit(not install(spec, sys.argv[2], print))
"""
"""Installs a version of a made-up engine: of a library, or of a program."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory of the engine's versions, which doesn't exist yet. pip has only a folder of wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0.0", "1.0.1", "2.0.0"):
        build_wheel(folder, version)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return versions.root("tiny")


def build_wheel(folder: Path, version: str, name: str = "tinyserver") -> None:
    """Writes a wheel with a module and a program."""
    home = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"VERSION = '{version}'\n",
        f"{name}/bin/{name}": f"#!/bin/sh\necho tiny {version}\n",
        f"{home}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{home}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {path: urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=") for path, text in files.items()}
    lines = [f"{path},sha256={digest.decode()},{len(files[path])}\n" for path, digest in digests.items()]
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{home}/RECORD", "".join([*lines, f"{home}/RECORD,,\n"]))


def start_install(version: str, kind: str = "library", umask: int = -1) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", SCRIPT, kind, version]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, umask=umask)


def finish(process: subprocess.Popen[str]) -> Sequence[str]:
    """Returns the lines that an installation printed. It must have succeeded."""
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out.splitlines()


def test_range_installs_newest_of_each_line(cache: Path) -> None:
    lines = finish(start_install("1.0..2.0"))
    assert [each.version for each in versions.list_installed("tiny")] == ["1.0.1", "2.0.0"]
    assert versions.read_catalog("tiny") == ["1.0.0", "1.0.1", "2.0.0"]
    wheel = Path(os.environ["PIP_FIND_LINKS"]) / "tinyserver-2.0.0-py3-none-any.whl"
    assert lines[-1] == f"2.0.0 ready: tinyserver 2.0.0 sha256:{sha256(wheel.read_bytes()).hexdigest()}"


def test_absent_version_is_one_line_with_the_others(cache: Path) -> None:
    process = start_install("3.1")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "not installed: there is no version 3.1; there are 1.0.1, 2.0.0\n")


@pytest.mark.parametrize("text", ["1.0.0..", "new", "2.0..1.0"])
def test_bad_version_is_refused_before_any_look_up(cache: Path, text: str) -> None:
    process = start_install(text)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1 and f"UsageError: engine tiny@{text}: " in out
    assert not cache.exists()


def test_two_installations_at_once_both_succeed(cache: Path) -> None:
    both = [start_install("1.0"), start_install("1.0")]
    printed = [line for process in both for line in finish(process)]
    assert printed.count("fetching 1.0.1") == 1
    assert sum(line.startswith("1.0.1 ready: ") for line in printed) == 2
    assert [each.version for each in versions.list_installed("tiny")] == ["1.0.1"]


def test_killed_installation_leaves_no_version_and_is_cleaned_up(cache: Path) -> None:
    process = start_install("1.0")
    wait_for(lambda: list(cache.glob(".1.0.1-*")))
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = list(cache.glob(".1.0.1-*"))
    assert left and versions.list_installed("tiny") == []
    finish(start_install("2.0"))
    assert sorted(path.name for path in cache.iterdir()) == [
        versions.home("tiny", "2.0.0").name,
        versions.CATALOG,
        installer.LOCK,
    ]


def test_removal_waits_for_an_installation_and_cleans_up(cache: Path) -> None:
    finish(start_install("1.0"))
    (installed,) = versions.list_installed("tiny")
    (cache / ".2.0.0-left").mkdir()
    assert installer.uninstall("tiny", installed, print) > 0
    assert sorted(path.name for path in cache.iterdir()) == [versions.CATALOG, installer.LOCK]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as another user")
def test_program_can_be_run_by_other_users(cache: Path) -> None:
    finish(start_install("1.0", "program", umask=0o077))
    (installed,) = versions.list_installed("tiny")
    for place in (cache, *cache.parents[:2]):
        assert place.stat().st_mode & stat.S_IXOTH
    for path in (installed.home, *installed.home.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o444 == 0o444
        assert mode & 0o111 in (0, 0o111)


def test_exact_installed_version_needs_no_look_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(start_install("1.0.1"))
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    (line,) = finish(start_install("1.0.1"))
    assert line.startswith("1.0.1 ready: tinyserver 1.0.1 sha256:")


def test_damaged_program_counts_as_not_installed(cache: Path) -> None:
    finish(start_install("1.0", "program"))
    (installed,) = versions.list_installed("tiny")
    assert installed.program is not None
    installed.program.unlink()
    assert versions.find_installed("tiny", "1.0.1") is None
    assert "fetching 1.0.1" in finish(start_install("1.0", "program"))
    assert versions.find_installed("tiny", "1.0.1") == installed


# -- sources --------------------------------------------------------------------------------------------------


def test_release_line_comes_from_its_first_source(cache: Path) -> None:
    folder = Path(os.environ["PIP_FIND_LINKS"])
    build_wheel(folder, "1.0.9", "tinyother")
    build_wheel(folder, "3.0.0", "tinyother")
    first, second = Wheel("tinyserver"), Wheel("tinyother")
    known = installer._list_available(versions.Versions((first, second)), print)
    assert known == {"1.0.0": first, "1.0.1": first, "2.0.0": first, "3.0.0": second}


def test_source_that_fails_is_named_and_the_other_serves(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    archive, wheel = Maven("group:program", "", "bin/program"), Wheel("tinyserver", earliest="2")
    assert installer._list_available(versions.Versions((archive, wheel)), print) == {"2.0.0": wheel}
    assert capsys.readouterr().out.startswith("some versions can't be looked up: fetching it needs Maven")
    with pytest.raises(InstallError, match="apt-get install -y maven"):
        installer._list_available(versions.Versions((archive,)), print)


def test_machine_without_archives_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Maven(f"group:program-{MACHINE}", "", "bin/program", machines={"x86_64": "linux64"})
    monkeypatch.setattr(installer, "machine", lambda: "x86_64")
    assert installer._name_artifact(source) == "group:program-linux64"
    monkeypatch.setattr(installer, "machine", lambda: "riscv64")
    with pytest.raises(InstallError, match="has no archive for riscv64, but for x86_64"):
        installer._name_artifact(source)


MVN = """#!/bin/sh
mkdir -p {repository}
echo '<metadata><version>1.0</version><version>1.1</version></metadata>' > {repository}/maven-metadata-central.xml
echo '[ERROR] Could not resolve dependencies for project dyno:program:jar:1: {error} -> [Help 1]'
echo '[ERROR] [Help 1] a page of help'
exit 1
"""
"""Fails as Maven does for a range without versions, after it has fetched their list."""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a program like Maven first on the PATH. Returns the home directory of its user."""
    home, tools = tmp_path / "home", tmp_path / "tools"
    (home / ".m2").mkdir(parents=True)
    tools.mkdir()
    (home / ".m2" / "settings.xml").write_text(
        f"<settings><localRepository>{tmp_path}/own</localRepository><x>y</x></settings>"
    )
    repository = tmp_path / "own" / "group" / "part" / "program"
    (tools / "mvn").write_text(MVN.format(repository=repository, error="No versions available"))
    (tools / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    return tools / "mvn"


def test_versions_are_read_from_mavens_own_repository(maven: Path) -> None:
    assert installer._list_artifact("group.part:program") == ["1.0", "1.1"]


def test_old_list_is_not_used_without_maven(maven: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installer._list_artifact("group.part:program")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallError, match="there is no mvn here"):
        installer._list_artifact("group.part:program")


def test_message_of_maven_is_one_line(maven: Path, tmp_path: Path) -> None:
    maven.write_text(MVN.format(repository=tmp_path / "elsewhere", error="Checksum validation failed"))
    with pytest.raises(InstallError) as caught:
        installer._list_artifact("group.part:program")
    assert str(caught.value) == "mvn failed: Checksum validation failed"


def test_wheel_of_another_digest_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "index" / "tinyserver"
    place.mkdir(parents=True)
    build_wheel(place, "1.0.1")
    name = "tinyserver-1.0.1-py3-none-any.whl"
    (place / "index.html").write_text(f'<a href="{name}#sha256={"0" * 64}">{name}</a>')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", place.parent.as_uri())
    out, _ = start_install("1.0.1").communicate(timeout=120)
    assert "1.0.1 not installed: what came as tinyserver==1.0.1 has another SHA-256 than its registry states" in out
    assert versions.find_installed("tiny", "1.0.1") is None
