"""A plug-in of pytest: the fixture `dyno_bench` measures a callable, and fails the test where it became slower.

docs/ci.md says how to use it. Nothing of Dyno's is imported before a test asks for the fixture.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dyno import __version__

if TYPE_CHECKING:
    from dyno.library.function import Measured

SCHEMA = 1
MOST_BYTES = 64 << 20
"""Of a baseline."""
DEFAULTS = {"save": None, "baseline": None, "margin": "10%", "metric": "time", "samples": 10, "seconds": 0.1}
MOST_SAMPLES = 10_000
MOST_SECONDS = 3_600
SESSION = pytest.StashKey["Session"]()
MEASURED = pytest.StashKey["list[Measurement]"]()


class Measurement(NamedTuple):
    """One call of the fixture, as plain data: a worker of pytest-xdist sends it to the controller as JSON."""

    name: str
    time_ns: list[float]
    cpu_ns: list[float]
    line: str
    """What the summary prints."""


class Baseline(NamedTuple):
    path: Path
    tests: dict[str, dict[str, list[float]]]
    origin: dict[str, str | None]
    """Where it was measured, as `_origin` returns it; None for what an older file does not have."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dyno", "measuring with Dyno")

    def add(name: str, text: str, **declared: Any) -> None:
        group.addoption(f"--dyno-{name}", default=DEFAULTS[name], help=text, **declared)

    add("save", "write what was measured, to be a later run's baseline", metavar="FILE")
    add("baseline", "fail tests that became slower than in FILE", metavar="FILE")
    add("margin", "how much slower; default: 10%%", metavar="PERCENT")
    add("metric", "what is judged; default: time", choices=("time", "cpu"))
    add("samples", "samples of a callable; default: 10", type=int, metavar="N")
    add("seconds", "of a sample; default: 0.1", type=float, metavar="S")


class Session:
    """The options of a session, checked, and the names measured so far in this process."""

    def __init__(self, config: pytest.Config) -> None:
        from dyno.contracts.settings import percent

        option = config.getoption
        self.metric, self.samples, self.seconds = (
            option(f"--dyno-{name}") for name in ("metric", "samples", "seconds")
        )
        if not 3 <= self.samples <= MOST_SAMPLES:
            raise pytest.UsageError(
                f"--dyno-samples: expected a whole number from 3 to {MOST_SAMPLES}, got {self.samples}"
            )
        if not 0 < self.seconds <= MOST_SECONDS:
            raise pytest.UsageError(
                f"--dyno-seconds: expected more than 0 and at most {MOST_SECONDS}, got {self.seconds}"
            )
        try:
            self.margin = percent(option("--dyno-margin"))
        except ValueError as error:
            raise pytest.UsageError(f"--dyno-margin {option('--dyno-margin')}: {error}") from None
        named = option("--dyno-baseline")
        self.before = None if named is None else _read(Path(named))
        self.names: set[str] = set()


def _read(path: Path) -> Baseline:
    from dyno.contracts.model import UsageError
    from dyno.text.safe_read import text

    try:
        whole = json.loads(text(path, MOST_BYTES))
        if whole["schema"] != SCHEMA:
            raise ValueError(f"it is of schema {whole['schema']}, and this Dyno reads {SCHEMA}")
        tests: dict[str, dict[str, list[float]]] = whole["tests"]
        if not all(map(_times, (test[kind] for test in tests.values() for kind in ("time_ns", "cpu_ns")))):
            raise ValueError("it has times that are not over zero")
        return Baseline(path, tests, {name: whole.get(name) for name in _origin()})
    except UsageError as error:
        raise pytest.UsageError(f"--dyno-baseline: {error}") from None
    except RecursionError:
        raise pytest.UsageError(f"--dyno-baseline {path}: nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"--dyno-baseline {path}: not written by --dyno-save: {error}") from None


def _times(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(0 < value < math.inf for value in found)


def _origin() -> dict[str, str | None]:
    return {"machine": platform.node(), "python": platform.python_version(), "dyno": __version__}


def _check_writable(path: Path) -> None:
    """Raises pytest.UsageError if the baseline can't be written there."""
    if path.is_dir():
        raise pytest.UsageError(f"--dyno-save {path}: it is a directory; expected the name of a file")
    if not path.parent.is_dir():
        raise pytest.UsageError(f"--dyno-save {path}: the directory {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise pytest.UsageError(f"--dyno-save {path}: no permission to write")


def pytest_configure(config: pytest.Config) -> None:
    given = {name: config.getoption(f"--dyno-{name}") for name in DEFAULTS}
    # Before any test runs, so that no measurement is lost to a mistyped option.
    if given["save"] is not None:
        _check_writable(Path(given["save"]))
    if given != DEFAULTS:
        config.stash[SESSION] = Session(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(config))


@pytest.fixture
def dyno_bench(request: pytest.FixtureRequest) -> Callable[..., Measured]:
    """`dyno_bench(function, arguments, check=None, name="")` calls the function with each argument, over and over,
    and returns what was found: `time` and `cpu` of an operation with intervals, `latency_ns`. With `--dyno-baseline`
    it fails the test where that is slower by more than the margin. Without arguments the function takes none."""
    config = request.config
    if SESSION not in config.stash:
        config.stash[SESSION] = Session(config)
    session = config.stash[SESSION]

    def bench(
        function: Callable[..., Any],
        arguments: Sequence[Any] | None = None,
        check: Callable[[Any, Any], bool] | None = None,
        name: str = "",
    ) -> Measured:
        from dyno.contracts.model import UsageError
        from dyno.library.function import measured

        named = f"{request.node.nodeid}[{name}]" if name else str(request.node.nodeid)
        if named in session.names:
            raise ValueError(f"{named} was measured already: name the second one, name=...")
        refusal = None
        try:
            found = measured(function, arguments, session.samples, session.seconds, check)
        except UsageError as error:
            refusal = str(error)
        # Outside of the handler, so that pytest prints one line and not two errors.
        if refusal is not None:
            pytest.fail(f"{named}: {refusal}", pytrace=False)
        session.names.add(named)
        line, failure = _judge(session, named, found)
        measurement = Measurement(named, list(found.time_ns), list(found.cpu_ns), line)
        request.node.stash.setdefault(MEASURED, []).append(measurement)
        if failure is not None:
            pytest.fail(failure, pytrace=False)
        return found

    return bench


def _judge(session: Session, name: str, found: Measured) -> tuple[str, str | None]:
    """The line for the summary; and the reason to fail the test, None if it passes."""
    from dyno.library.function import judged
    from dyno.report.tables import units

    value = found.time if session.metric == "time" else found.cpu
    figure = f"{units.duration(value.median)} {session.metric} [95 %: {units.duration(value.low)} – "
    figure += f"{units.duration(value.high)}]"
    before = None if session.before is None else session.before.tests.get(name)
    if before is None:
        return f"{name}: {figure}{'' if session.before is None else ', not in the baseline'}", None
    gate = judged(found.values(session.metric), before[f"{session.metric}_ns"], session.margin)
    slower = f"{name} is slower than the baseline allows ({session.margin:.0%}): {gate.text}"
    return f"{name}: {figure}, {gate.text}", None if gate.passed else slower


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Attaches the measurements to the test's report, which pytest-xdist sends from a worker to the controller."""
    outcome = yield
    if measurements := item.stash.get(MEASURED, None):
        outcome.get_result().dyno = [measurement._asdict() for measurement in measurements]
        measurements.clear()


class Collector:
    """Collects the measurements of all tests, of workers too; saves them and prints the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: dict[str, Measurement] = {}
        self._workers: set[str] = set()
        self._notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for data in getattr(report, "dyno", ()):
            self._found[data["name"]] = Measurement(**data)
            if worker := getattr(report, "worker_id", None):
                self._workers.add(worker)

    # Before the summary is printed, which is the terminal reporter's own part of this hook.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.getoption("--dyno-save") is None or self._config.option.collectonly:
            return
        path = Path(self._config.getoption("--dyno-save"))
        if session.exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self._notes.append(f"{path} was not written: the run was interrupted")
        elif not self._found:
            self._notes.append(f"{path} was not written: no test measured anything")
        else:
            try:
                self._save(path)
                return
            except OSError as error:
                self._notes.append(f"{path} was not written: {error.strerror}")
        if session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _save(self, path: Path) -> None:
        from dyno.host.filesystem import replace

        tests = {name: {"time_ns": each.time_ns, "cpu_ns": each.cpu_ns} for name, each in self._found.items()}
        whole = {"schema": SCHEMA, **_origin(), "tests": tests}
        replace(path.resolve(), (json.dumps(whole, indent=1) + "\n").encode())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = [*(each.line for each in self._found.values()), *self._notes]
        if len(self._workers) > 1:
            lines.append(
                f"{len(self._workers)} workers measured at the same time, which makes times longer and noisier"
            )
        session = self._config.stash.get(SESSION, None)
        if session is not None and session.before is not None:
            lines += _remarks(session.before, set(self._found))
        if lines:
            terminalreporter.section("dyno")
            for line in lines:
                terminalreporter.line(line)


def _remarks(before: Baseline, found: set[str]) -> list[str]:
    """Why the comparison with the baseline says less than it seems to."""
    lines = [
        f"{before.path} was measured with {name} {then}, and this is {name} {now}"
        for name, now in _origin().items()
        if (then := before.origin[name]) is not None and then != now
    ]
    if not before.tests:
        lines.append(f"{before.path} has no tests: nothing is compared")
    return [*lines, *(f"{name}: in the baseline, not measured now" for name in before.tests if name not in found)]
