"""How often `dyno bisect` finds a planted change among 16 versions, and how often it names a version without one.

    python benchmarks/bisecting.py [--rounds N] [--planted PERCENT] [--versions N] [--within TIME] [--quiet]

Makes wheels of a package and an engine whose operations do as much work as the package says. In each round, one
bisection is of versions with more work from the one after the middle on, and one of versions with the same work.
Beside them, another process keeps a core busy, unless --quiet.

Exit status 1: a planted change was missed, or a version was named without a change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

WORK = 20_000
"""Units of work of an operation, about 10 ns each."""
BUSY = "while True: pass"
ENGINE = '''
"""Engine whose operations do as much work as the installed version of the package `planted` says."""

from dataclasses import replace

from dyno.contracts.engine import PortSpec
from dyno.contracts.installation import Installation
from dyno.contracts.versions import Versions, Wheel
from dyno.engines.synthetic import ENGINE as SYNTHETIC
from dyno.engines.synthetic import Operations


class Planted(Operations):
    def __init__(self, engine, work):
        import planted

        super().__init__(engine, planted.WORK)


ENGINE = replace(
    SYNTHETIC,
    name="planted",
    title="Takes as long as its package says",
    ports={"synthetic": PortSpec(Planted)},
    installation=Installation(("planted",), ("planted",)),
    versions=Versions((Wheel("planted"),)),
)
'''
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
TAGS = "Wheel-Version: 1.0\nGenerator: benchmarks\nRoot-Is-Purelib: true\nTag: {tag}\n"


def make_wheel(folder: Path, version: str, work: int, tag: str = "py3-none-any") -> None:
    """Makes a wheel of the package `planted`."""
    about = f"planted-{version}.dist-info"
    texts = {
        "planted.py": f"WORK = {work}\n",
        f"{about}/METADATA": METADATA.format(name="planted", version=version),
        f"{about}/WHEEL": TAGS.format(tag=tag),
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"planted-{version}-{tag}.whl", "w") as wheel:
        for path, text in texts.items():
            wheel.writestr(path, text)


def plant(place: Path, works: Mapping[str, int]) -> dict[str, str]:
    """Makes the engine, and a wheel of each version with its work. Returns the environment in which Dyno finds
    them."""
    wheels = place / "wheels"
    wheels.mkdir(parents=True)
    for version, work in works.items():
        make_wheel(wheels, version, work)
    about = place / "plugin" / "planted_engine-0.1.dist-info"
    about.mkdir(parents=True)
    (about.parent / "planted_engine.py").write_text(ENGINE)
    (about / "METADATA").write_text(METADATA.format(name="planted-engine", version="0.1"))
    (about / "entry_points.txt").write_text("[dyno.engines]\nplanted = planted_engine:ENGINE\n")
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(about.parent), os.environ.get("PYTHONPATH")])),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        "XDG_CACHE_HOME": str(place / "cache"),
    }


def name_versions(count: int) -> list[str]:
    return [f"1.{number}" for number in range(count)]


def plant_change(place: Path, versions: int, share: float) -> dict[str, str]:
    """Plants so many versions, of which the later half has a larger share of work."""
    names = name_versions(versions)
    works = {name: round(WORK * (1 + share * (at >= versions // 2))) for at, name in enumerate(names)}
    return plant(place, works)


@contextmanager
def keep_core_busy(busy: bool) -> Iterator[None]:
    """Runs a process that computes, during the block."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def bisect(
    environment: Mapping[str, str], place: Path, versions: int, within: str, operations: int
) -> dict[str, object]:
    """Returns the JSON of a bisection among so many versions."""
    names = name_versions(versions)
    words = ["bisect", "selftest", "--good", f"planted@{names[0]}", "--bad", f"planted@{names[-1]}"]
    words += ["-p", f"operations={operations}", "--within", within, "-o", str(place), "--work", str(place.parent)]
    ended = subprocess.run(
        [sys.executable, "-m", "dyno", *words, "--json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if not ended.stdout:
        sys.exit(ended.stderr)
    result: dict[str, object] = json.loads(ended.stdout)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description="How often dyno bisect finds a planted change.")
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="bisections of each kind; default: 10")
    parser.add_argument("--planted", default="10%", metavar="PERCENT", help="additional work; default: 10%%")
    parser.add_argument("--versions", type=int, default=16, metavar="N", help="at least 3; default: 16")
    parser.add_argument("--within", default="30m", metavar="TIME", help="of each bisection; default: 30m")
    parser.add_argument("--operations", type=int, default=300, metavar="N", help="of a trial; default: 300")
    parser.add_argument("--quiet", action="store_true", help="without another busy process")
    options = parser.parse_args()
    shares = {"planted": float(options.planted.rstrip("%")) / 100, "nothing": 0.0}
    expected = {"planted": name_versions(options.versions)[options.versions // 2], "nothing": None}
    right = dict.fromkeys(shares, 0)
    named = dict.fromkeys(shares, 0)
    print(f"{'':<9}{'round':>6}  {'kind':<8}{'version':<9}{'ratio':>6}{'samples':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bisecting-") as home, keep_core_busy(not options.quiet):
        environments = {
            kind: plant_change(Path(home, kind), options.versions, share) for kind, share in shares.items()
        }
        for number in range(1, options.rounds + 1):
            for kind, environment in environments.items():
                place = Path(home, f"{kind}-{number}")
                result = bisect(environment, place, options.versions, options.within, options.operations)
                change, version = result["change"], result["version"]
                right[kind] += version == expected[kind]
                named[kind] += version is not None
                ratio = f"{change['ratio']:.3f}" if isinstance(change, dict) else ""
                figures = f"{ratio:>6}{result['samples']:>9}{result['seconds']:>9.0f}"
                print(f"{kind:<9}{number:>6}  {result['kind']:<8}{version or '':<9}{figures}", flush=True)
    print(f"\n{options.planted} planted: {right['planted']} of {options.rounds} found")
    print(f"nothing planted: a version named in {named['nothing']} of {options.rounds}")
    return 0 if right["planted"] == options.rounds and not named["nothing"] else 1


if __name__ == "__main__":
    sys.exit(main())
