"""A plug-in of pytest: the fixture `dyno_bench` measures a callable, and fails the test where it became slower.

docs/ci.md says how to use it. Nothing of Dyno's is imported before a test asks for the fixture.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dyno import __version__

if TYPE_CHECKING:
    from dyno.library.function import Measured

SCHEMA = 1
MOST_BYTES = 64 << 20
"""Of a baseline."""
KEY = pytest.StashKey["Session"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dyno", "measuring with Dyno")
    group.addoption("--dyno-save", metavar="FILE", help="write what was measured, to be a later run's baseline")
    group.addoption("--dyno-baseline", metavar="FILE", help="fail tests that became slower than in FILE")
    group.addoption("--dyno-margin", metavar="PERCENT", default="10%", help="how much slower; default: 10%%")
    group.addoption("--dyno-metric", choices=("time", "cpu"), default="time", help="what is judged; default: time")
    group.addoption("--dyno-samples", type=int, metavar="N", default=10, help="samples of a callable; default: 10")
    group.addoption("--dyno-seconds", type=float, metavar="S", default=0.1, help="of a sample; default: 0.1")


class Session:
    """What the tests of a session measured, and what their baseline says."""

    def __init__(self, config: pytest.Config) -> None:
        from dyno.settings import percent

        option = config.getoption
        self.metric, self.samples, self.seconds = (
            option(f"--dyno-{name}") for name in ("metric", "samples", "seconds")
        )
        if self.samples < 3 or self.seconds <= 0:
            raise pytest.UsageError("--dyno-samples wants 3 or more, and --dyno-seconds more than 0")
        try:
            self.margin = percent(option("--dyno-margin"))
        except ValueError as error:
            raise pytest.UsageError(f"--dyno-margin {option('--dyno-margin')}: {error}") from None
        named = option("--dyno-baseline")
        self.before = None if named is None else _read(Path(named))
        self.found: dict[str, Measured] = {}
        self.lines: list[str] = []

    def save(self, path: Path) -> None:
        tests = {
            name: {"time_ns": list(found.time_ns), "cpu_ns": list(found.cpu_ns)} for name, found in self.found.items()
        }
        about = {"schema": SCHEMA, "dyno": __version__, "python": platform.python_version()}
        path.write_text(json.dumps({**about, "machine": platform.node(), "tests": tests}, indent=1) + "\n")


def _read(path: Path) -> dict[str, dict[str, list[float]]]:
    from dyno.model import UsageError
    from dyno.reading import text

    try:
        whole = json.loads(text(path, MOST_BYTES))
        if whole["schema"] != SCHEMA:
            raise ValueError(f"it is of schema {whole['schema']}, and this Dyno reads {SCHEMA}")
        tests: dict[str, dict[str, list[float]]] = whole["tests"]
        if not all(map(_times, (test[kind] for test in tests.values() for kind in ("time_ns", "cpu_ns")))):
            raise ValueError("it has times that are not over zero")
        return tests
    except UsageError as error:
        raise pytest.UsageError(f"--dyno-baseline: {error}") from None
    except RecursionError:
        raise pytest.UsageError(f"--dyno-baseline {path}: nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"--dyno-baseline {path}: not written by --dyno-save: {error}") from None


def _times(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(0 < value < math.inf for value in found)


def pytest_configure(config: pytest.Config) -> None:
    # Asked for what can't be done: before any test has run.
    if config.getoption("--dyno-baseline") or config.getoption("--dyno-save"):
        config.stash[KEY] = Session(config)


@pytest.fixture
def dyno_bench(request: pytest.FixtureRequest) -> Callable[..., Measured]:
    """`dyno_bench(function, arguments, check=None, name="")` calls the function with each argument, over and over,
    and returns what was found: `time` and `cpu` of an operation with intervals, `latency_ns`. With `--dyno-baseline`
    it fails the test where that is slower by more than the margin. Without arguments the function takes none."""
    config = request.config
    if KEY not in config.stash:
        config.stash[KEY] = Session(config)
    session = config.stash[KEY]

    def bench(
        function: Callable[..., Any],
        arguments: Sequence[Any] | None = None,
        check: Callable[[Any, Any], bool] | None = None,
        name: str = "",
    ) -> Measured:
        from dyno.library.function import measured

        named = f"{request.node.nodeid}[{name}]" if name else str(request.node.nodeid)
        if named in session.found:
            raise ValueError(f"{named} was measured already: name the second one, name=...")
        call = function if arguments is not None else lambda _: function()
        found = measured(
            call, arguments if arguments is not None else [None], session.samples, session.seconds, check
        )
        session.found[named] = found
        _judge(session, named, found)
        return found

    return bench


def _judge(session: Session, name: str, found: Measured) -> None:
    from dyno.library.function import judged
    from dyno.report import units

    value = found.time if session.metric == "time" else found.cpu
    figure = f"{units.duration(value.median)} {session.metric} [95 %: {units.duration(value.low)} – "
    figure += f"{units.duration(value.high)}]"
    before = None if session.before is None else session.before.get(name)
    if before is None:
        session.lines.append(f"{name}: {figure}{'' if session.before is None else ', not in the baseline'}")
        return
    gate = judged(found.values(session.metric), before[f"{session.metric}_ns"], session.margin)
    session.lines.append(f"{name}: {figure}, {gate.text}")
    if not gate.passed:
        pytest.fail(f"{name} is slower than the baseline allows ({session.margin:.0%}): {gate.text}", pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    made, path = session.config.stash.get(KEY, None), session.config.getoption("--dyno-save")
    # A worker of xdist's has a part only.
    if made is not None and path and not hasattr(session.config, "workerinput"):
        made.save(Path(path))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    made = config.stash.get(KEY, None)
    if made is not None and made.lines:
        terminalreporter.section("dyno")
        for line in made.lines:
            terminalreporter.line(line)
