"""Builds the source distribution and the wheel, and tries both in empty environments of several versions of Python.

In each environment it installs the artefact with the embedded engines and the report, measures two samples and writes
a page. A version of Python that this machine lacks is printed as untested. Exits with status 1 if anything failed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dyno.install.engine import find
from dyno.install.programs import InstallError

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "[embedded,report]"
RUN = ("run", "records", "--samples", "2", "-p", "records=1000", "-p", "operations=2000", "-o", "run.json")
FACTS = "import dyno; from dyno.measure import loop; print(dyno.__version__, loop.describe_loop(loop.pick())['name'])"


def ran(*words: object, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(f"{' '.join(map(str, words[:6]))}: status {done.returncode}\n{done.stderr[-2_000:]}")
    return done.stdout


def build(place: Path) -> tuple[Path, Path]:
    """Returns the wheel and the source distribution. The wheel is built from the source distribution."""
    shutil.rmtree(place, ignore_errors=True)
    ran(sys.executable, "-m", "build", "--outdir", place, ".", cwd=ROOT)
    (wheel,), (source,) = place.glob("*.whl"), place.glob("*.tar.gz")
    return wheel, source


def tried(artefact: Path, python: Path) -> str:
    """Installs, measures and reports in an empty environment. Returns facts of what was installed and written."""
    with tempfile.TemporaryDirectory(prefix="dyno-dist-") as folder:
        home = Path(folder)
        ran(python, "-m", "venv", "venv", cwd=home)
        commands = home / "venv" / "bin"
        ran(commands / "pip", "install", "--quiet", "--disable-pip-version-check", f"{artefact}{EXTRAS}", cwd=home)
        table = ran(commands / "dyno", *RUN, cwd=home)
        ran(commands / "dyno", "report", "run.json", cwd=home)
        size = (home / "run.html").stat().st_size
        version, loop = ran(commands / "python", "-c", FACTS, cwd=home).split()
        if "rand-key" not in table or size < 100_000:
            raise InstallError(f"no table of rand-key, or a page of only {size} bytes")
        return f"dyno {version}, {loop} loop, page of {size:,} bytes"


def main(versions: list[str]) -> int:
    failed = False
    wheel, source = build(ROOT / "dist")
    for artefact in (wheel, source):
        print(f"{artefact.name}: {artefact.stat().st_size:,} bytes")
    for version in versions:
        try:
            python = find(version)
        except InstallError as error:
            print(f"Python {version}: untested: {error}")
            continue
        for artefact in (wheel, source):
            began = time.monotonic()
            try:
                result = tried(artefact, python)
            except InstallError as error:
                result, failed = f"FAILED: {error}", True
            print(f"Python {version}, {artefact.name}: {result}, {time.monotonic() - began:.0f} s", flush=True)
    if uvx := shutil.which("uvx"):
        print(f"uvx: {ran(uvx, '--from', wheel, 'dyno', '--version', cwd=ROOT).strip()}")
    else:
        print("uvx: untested: it is not installed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["3.10", "3.13", "3.14"]))
