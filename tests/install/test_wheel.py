"""Built packages: a source distribution with everything that a build needs, and a wheel that works without the
repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from building import PIP, REPOSITORY, sdist, wheel, without_cargo
from shell import Shell, small

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("archive")
    return sdist(Shell(place, place / "work"), place)


@pytest.fixture
def installed(shell: Shell, archive: Path, tmp_path: Path) -> Path:
    """A directory with the installed wheel of the source distribution, without the native loop, whose build takes
    long.
    """
    shell.given = {"PATH": without_cargo()}
    wheels, target = tmp_path / "wheels", tmp_path / "installed"
    built = wheel(shell, archive, wheels)
    assert built.status == 0, built.err
    (package,) = wheels.iterdir()
    # Without a native module, the wheel is independent of the platform.
    assert re.fullmatch(r"dyno_bench-[\d.]+-py3-none-any\.whl", package.name)
    assert not [name for name in zipfile.ZipFile(package).namelist() if name.endswith(".so")]
    words = ("install", "--no-deps", "--no-index", "--target", target, package)
    assert shell.sh(sys.executable, *PIP, *words).status == 0
    return target


def test_installed_wheel_works_without_the_repository(installed: Path, shell: Shell) -> None:
    # Precedes an editable installation on the path.
    shell.given["PYTHONPATH"] = str(installed)
    where = shell.sh(sys.executable, "-c", "import dyno; print(dyno.__file__)").out
    assert where.strip() == str(installed / "dyno" / "__init__.py")
    for words in (
        ("run", "records", "-e", "sqlite,memory", "-o", shell.file, *small()),
        ("report", shell.file, "-o", "r.html"),
        ("site", shell.home, "-o", "site"),
        ("replicate", "acid-2013", "--help"),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 0, ended.err
    assert (shell.home / "r.html").stat().st_size > 100_000
    assert (installed / "dyno" / "published" / "acid-2013.toml").exists()
    assert (installed / "dyno" / "install" / "packages.lock").exists()
    assert (installed / "dyno" / "engines" / "s3" / "nginx.conf").exists()
    assert (installed / "dyno" / "engines" / "mysql" / "wsrep_sst_dyno.sh").exists()
    # Dyno tells users of the slower loop how to get the native loop.
    listed = shell.dyno("list")
    assert listed.status == 0
    assert re.search(r"native loop is not built here.*install a Rust toolchain", listed.out)
    assert "python-loop" in shell.dyno("doctor", "--json").out


def test_source_distribution_has_every_native_source_file(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tracked = subprocess.run(["git", "ls-files", "rust", "src"], cwd=REPOSITORY, capture_output=True, text=True)
    wanted = (
        set(tracked.stdout.split()) if tracked.returncode == 0 else {"rust/Cargo.toml", "rust/measure/Cargo.toml"}
    )
    # git still lists a file that was just deleted.
    assert {name for name in wanted if (REPOSITORY / name).exists()} - names == set()
    assert not [name for name in names if name.endswith((".so", ".pyc")) or "/target/" in name]


def test_package_description_has_absolute_links_only(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        (info,) = [member for member in opened.getmembers() if re.fullmatch(r"[^/]+/PKG-INFO", member.name)]
        file = opened.extractfile(info)
        assert file is not None
        metadata = message_from_bytes(file.read())
    text = str(metadata.get_payload())
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert "Five reasons to trust it" in text and "# Dyno" in text
    relative = [target for target in re.findall(r"\]\(([^)]*)\)", text) if not re.match(r"[a-z]+:", target)]
    assert relative == []
    assert "<img" not in text and "![" not in text
    # The links to the documentation become absolute in the package's description.
    assert "](docs/reference/claims.md)" in (REPOSITORY / "README.md").read_text()


def test_wheel_build_fails_without_required_native_module(archive: Path, shell: Shell, tmp_path: Path) -> None:
    shell.given = {"PATH": without_cargo(), "DYNO_NATIVE": "required"}
    built = wheel(shell, archive, tmp_path / "wheels")
    assert built.status != 0
    assert "cargo" in built.err.lower() + built.out.lower() or "rust" in built.err.lower() + built.out.lower()
    assert not list((tmp_path / "wheels").glob("*.whl"))
