"""Builds both artefacts and installs them into fresh environments: the native loop must be in the right ones.

Builds the native module several times and downloads Dyno's requirements, so it has the marker `soak`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from building import copy, without_cargo
from needed import unavailable

from dyno.install.engine import find
from dyno.install.programs import InstallError

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.soak, pytest.mark.timeout(3_000)]

LOOP = "from dyno.measure.loop import describe_loop, pick; print(describe_loop(pick())['name'])"


def ran(words: Sequence[object], path: str | None = None, cwd: Path | None = None) -> str:
    environment = {"PATH": path or without_cargo(), "HOME": str(Path.home())}
    done = subprocess.run(
        [str(word) for word in words], env=environment, cwd=cwd or "/", capture_output=True, text=True
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}"
    return done.stdout


def cargo() -> str:
    """PATH with a Rust toolchain."""
    cargo = shutil.which("cargo")
    if cargo is None:
        unavailable("there is no cargo")
    return f"{Path(str(cargo)).parent}:{without_cargo()}"


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution and the wheel, built by `python -m build` with cargo."""
    place = tmp_path_factory.mktemp("build")
    source = copy(place / "source")
    ran([sys.executable, "-m", "build", "--outdir", place / "dist", "."], cargo(), source)
    shutil.rmtree(source)
    (sdist,) = (place / "dist").glob("*.tar.gz")
    (wheel,) = (place / "dist").glob("*.whl")
    return sdist, wheel


@pytest.fixture(params=["3.10", "3.11"])
def python(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The interpreter of an empty virtual environment."""
    try:
        interpreter = find(request.param)
    except InstallError as error:
        unavailable(str(error))
    ran([interpreter, "-m", "venv", tmp_path / "venv"])
    return tmp_path / "venv" / "bin" / "python"


@pytest.mark.parametrize(
    ("artefact", "with_cargo", "loop"),
    [("wheel", False, "native"), ("sdist", True, "native"), ("sdist", False, "python")],
)
def test_installed_loop_depends_on_artefact_and_cargo(
    artefacts: tuple[Path, Path], python: Path, artefact: str, with_cargo: bool, loop: str
) -> None:
    chosen = artefacts[artefact == "wheel"]
    path = cargo() if with_cargo else without_cargo()
    ran([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", chosen], path)
    assert ran([python, "-c", LOOP]).strip() == loop
    dyno = python.with_name("dyno")
    assert ("native loop is not built" in ran([dyno, "list"])) == (loop == "python")
    assert ran([python.with_name("dyno-bench"), "--version"]).startswith("dyno ")
    words = ("-p", "records=300", "--samples", 2, "--phases", "rand-key", "-o", python.parents[2] / "r.json")
    assert "rand-key" in ran([dyno, "run", "records", "-e", "sqlite", *words])


def test_wheel_runs_by_uvx_offline(artefacts: tuple[Path, Path], tmp_path: Path) -> None:
    uvx = shutil.which("uvx")
    if uvx is None:
        unavailable("there is no uvx")
    _, wheel = artefacts
    house = tmp_path / "wheels"
    ran([sys.executable, "-m", "pip", "download", "--quiet", "--dest", house, wheel])
    offline = ("--offline", "--no-index", "--find-links", house, "--python", sys.executable)
    assert ran([uvx, *offline, "--from", wheel, "dyno-bench", "--version"]).startswith("dyno ")
    assert ran([uvx, *offline, "dyno-bench", "list", "suites"]).count("records")
