"""The pytest plug-in: the fixture `dyno_bench` measures a callable, and fails the test if it became slower.

See docs/reference/ci.md. Dyno is imported only when a test uses the fixture.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pluggy

    from dyno.library.baseline import Baseline, Measurement
    from dyno.library.function import Measured

MOST_SAMPLES, MOST_SECONDS = 10_000, 3_600
MOST_MARGIN = 100_000
"""Largest margin in percent."""
MARK = "dyno"
OPTIONS: dict[str, tuple[object, str, dict[str, object]]] = {
    "save": (None, "write the measurements to a run file, a baseline for later runs", {"metavar": "FILE"}),
    "baseline": (None, "fail tests that became slower than in FILE", {"metavar": "FILE"}),
    "margin": ("10%", "how much slower a test may be; default: 10%%", {"metavar": "PERCENT"}),
    "metric": ("time", "what is compared; default: time", {"choices": ("time", "cpu", "memory")}),
    "turns": (
        False,
        "take one sample of each callable, and add it to the FILE of --dyno-save: run base and head in turns",
        {"action": "store_true"},
    ),
    "samples": (10, "samples of a callable, or turns; default: 10", {"type": int, "metavar": "N"}),
    "seconds": (0.1, "duration of a sample; default: 0.1", {"type": float, "metavar": "S"}),
}
"""Default value, help text and declaration of each option."""
SESSION = pytest.StashKey["Session"]()
MEASURED = pytest.StashKey["list[Measurement]"]()


class Session:
    """The options of a session, which have been checked, and the names measured so far in this process."""

    def __init__(self, config: pytest.Config) -> None:
        from dyno.contracts.settings import percent

        values = {name: config.getoption(f"--dyno-{name}") for name in OPTIONS}
        self.metric = values["metric"]
        self.samples = values["samples"]
        self.seconds = values["seconds"]
        if not 3 <= self.samples <= MOST_SAMPLES:
            raise pytest.UsageError(
                f"--dyno-samples: expected a whole number from 3 to {MOST_SAMPLES}, got {self.samples}"
            )
        if not 0 < self.seconds <= MOST_SECONDS:
            raise pytest.UsageError(
                f"--dyno-seconds: expected more than 0 and at most {MOST_SECONDS}, got {self.seconds}"
            )
        try:
            self.margin = percent(values["margin"], MOST_MARGIN)
        except ValueError as error:
            raise pytest.UsageError(f"--dyno-margin {values['margin']}: {error}") from None
        if values["baseline"] is None:
            self.before: Baseline | None = None
        else:
            self.before = _read("baseline", values["baseline"])
        self.names: set[str] = set()
        self.turns: Turns | None = None
        if values["turns"]:
            self.turns = Turns(values["save"], self.samples, self.before)

    @property
    def paired(self) -> bool:
        """Whether tests are compared turn by turn."""
        return self.turns is not None and self.turns.paired


class Turns:
    """The turns of a session with `--dyno-turns`: this one, and the earlier ones in the file of `--dyno-save`."""

    def __init__(self, path: str | None, planned: int, before: Baseline | None) -> None:
        if path is None:
            raise pytest.UsageError("--dyno-turns: expected --dyno-save FILE too, to which each turn adds a sample")
        self.planned = planned
        self.earlier = _read("save", path) if Path(path).exists() else None
        run = None
        if self.earlier is not None:
            run = self.earlier.run
        if self.earlier is not None and run is None:
            raise pytest.UsageError(f"--dyno-save {path}: an earlier version wrote it: remove it")
        self.number = 0
        self.paired = False
        if run is not None:
            from dyno.library.baseline import next_turn

            self.number = next_turn(run.attempts)
        if self.number >= planned:
            raise pytest.UsageError(
                f"--dyno-save {path}: it has all {planned} turns: remove it, or raise --dyno-samples"
            )
        if before is not None:
            from dyno.stats.two_runs import alternate

            starts = {
                **({} if self.earlier is None else self.earlier.starts),
                self.number: datetime.now(timezone.utc),
            }
            both = starts.keys() & before.starts.keys()
            own, others = ({turn: of[turn] for turn in both} for of in (starts, before.starts))
            self.paired = alternate(others, own)

    def blocks(self, test: str, metric: str, value: float) -> dict[int, float]:
        """Returns a test's values by turn: the earlier ones, and that of this turn."""
        known = None
        if self.earlier is not None:
            known = self.earlier.tests.get(test)
        return {**({} if known is None else known.values(metric)), self.number: value}


def _read(option: str, path: str) -> Baseline:
    from dyno.contracts.model import UsageError
    from dyno.library.baseline import read

    try:
        return read(Path(path))
    except UsageError as error:
        raise pytest.UsageError(f"--dyno-{option}: {error}") from None
    except RecursionError:
        raise pytest.UsageError(f"--dyno-{option} {path}: nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"--dyno-{option} {path}: not written by --dyno-save: {error}") from None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dyno", "measuring with Dyno")
    for name, (default, help, declared) in OPTIONS.items():
        group.addoption(f"--dyno-{name}", default=default, help=help, **declared)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(margin): how much slower this test may be, such as '25%'")
    # Check options before any test runs, so that no measurement is lost to a mistyped option.
    if config.getoption("--dyno-save") is not None:
        path = Path(config.getoption("--dyno-save"))
        why = None
        if path.is_dir():
            why = "it is a directory; expected the name of a file"
        elif not path.parent.is_dir():
            why = f"the directory {path.parent} does not exist"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            why = "no permission to write"
        if why is not None:
            raise pytest.UsageError(f"--dyno-save {path}: {why}")
    if any(config.getoption(f"--dyno-{name}") != default for name, (default, _, _) in OPTIONS.items()):
        config.stash[SESSION] = Session(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Collector(config))


@pytest.fixture
def dyno_bench(request: pytest.FixtureRequest) -> Bench:
    """`dyno_bench(function, arguments, check=None, name="", setup=None, inflight=1)` calls the function with each of
    the arguments in turn, over and over; if there are no arguments, calls it without any. Returns `time` and `cpu`
    per operation with intervals, and `latency_ns`. With `--dyno-baseline`, the test fails if the function is slower
    by more than the margin. `dyno_bench.record(name, value, unit, better, margin)` adds a figure of the test's own to
    the last measurement."""
    config = request.config
    if SESSION not in config.stash:
        config.stash[SESSION] = Session(config)
    return Bench(config.stash[SESSION], request.node)


class Bench:
    """The fixture's value in one test."""

    def __init__(self, session: Session, node: pytest.Item) -> None:
        self._session, self._node = session, node
        self._margin = _margin_of(node, session.margin)
        self._measurements: list[Measurement] = node.stash.setdefault(MEASURED, [])

    def __call__(
        self,
        function: Callable[..., object],
        arguments: Sequence[object] | None = None,
        check: Callable[[Any, Any], bool] | None = None,
        name: str = "",
        setup: Callable[..., object] | None = None,
        inflight: int = 1,
    ) -> Measured:
        from dyno.contracts.model import UsageError
        from dyno.library.baseline import Measurement
        from dyno.library.function import measure_calls

        session = self._session
        if name:
            test = f"{self._node.nodeid}[{name}]"
        else:
            test = str(self._node.nodeid)
        if test in session.names:
            raise ValueError(f"{test} was measured already: name the second one, name=...")
        refusal = None
        try:
            samples = 1
            if session.turns is None:
                samples = session.samples
            result = measure_calls(function, arguments, samples, session.seconds, check, setup, inflight)
        except UsageError as error:
            refusal = str(error)
        # Fail outside the exception handler, so that pytest prints only one error.
        if refusal is not None:
            pytest.fail(f"{test}: {refusal}", pytrace=False)
        session.names.add(test)
        line, failure = _compare(session, test, result, self._margin)
        self._measurements.append(Measurement.from_result(test, line, result))
        if failure is not None:
            pytest.fail(failure, pytrace=False)
        return result

    def record(
        self, name: str, value: float, unit: str = "", better: str = "", margin: str | float | None = None
    ) -> None:
        """Adds a figure to the last measurement: it is saved, shown, and compared with the baseline. With `better`
        ('less' or 'more') and a `margin`, such as '5%', the test fails if the figure became worse by more."""
        if not self._measurements:
            raise ValueError(f"{name}: a figure belongs to a measurement: call dyno_bench before")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value!r}")
        # NumPy's numbers are not plain data.
        if isinstance(value, float):
            value = float(value)
        else:
            value = int(value)
        if better not in ("", *WORSE) or (margin is not None and not better):
            raise ValueError(f"{name}: better: expected 'less' or 'more', got {better!r}")
        allowed = _share(name, margin)
        measurement, before = self._measurements[-1], self._session.before
        if name in measurement.figures:
            raise ValueError(f"{name} was recorded already")
        measurement.figures[name] = {"value": value, "unit": unit}
        line, failure = f"{measurement.name}: {name} {value:,}{unit and ' '}{unit}", None
        test = None
        if before is not None:
            test = before.tests.get(measurement.name)
        old = None
        if test is not None:
            old = test.figures.get(name)
        if isinstance(old, (int, float)):
            if old:
                change = (value - old) / abs(old)
            elif value != old:
                change = math.copysign(math.inf, value - old)
            else:
                change = 0
            line += f", {old:,} before ({change:+.1%})"
            if allowed is not None and change * WORSE[better] > allowed:
                failure = f"{line}: worse than the baseline allows ({allowed:.0%})"
        measurement.line += f"\n{line}"
        if failure is not None:
            pytest.fail(failure, pytrace=False)


WORSE = {"less": 1, "more": -1}
"""Sign of a change for the worse, by what is better."""


def _share(name: str, margin: str | float | None) -> float | None:
    from dyno.contracts.settings import percent

    if not isinstance(margin, str):
        return margin
    try:
        return percent(margin, MOST_MARGIN)
    except ValueError as error:
        raise ValueError(f"{name}: margin {margin}: {error}") from None


def _margin_of(node: pytest.Item, default: float) -> float:
    """Returns the margin of the test's marker, or else the default. Fails the test if the marker is mistaken."""
    marker = node.get_closest_marker(MARK)
    if marker is None:
        return default
    if marker.args or set(marker.kwargs) != {"margin"}:
        pytest.fail(f"{node.nodeid}: expected @pytest.mark.{MARK}(margin='25%')", pytrace=False)
    try:
        return _share(f"@pytest.mark.{MARK}", str(marker.kwargs["margin"])) or default
    except ValueError as error:
        why = str(error)
    pytest.fail(f"{node.nodeid}: {why}", pytrace=False)


def _compare(session: Session, test: str, result: Measured, margin: float) -> tuple[str, str | None]:
    """Returns the line for the summary, and the reason to fail the test; None if the test is not slower than the
    baseline allows."""
    from dyno.library.function import judge_times
    from dyno.report.tables import units, wording
    from dyno.stats.estimate import estimate
    from dyno.stats.metric import MEMORY, THROUGHPUT

    metric, turns = session.metric, session.turns
    values = result.values(metric)
    if not values:
        return f"{test}: its {metric} can't be measured here", None
    value, of_memory = estimate(values), metric == "memory"
    write = units.size if of_memory else units.duration
    figure = f"{write(value.median)} {metric}"
    if value.low is not None:
        figure += f" [95 %: {write(value.low)} – {write(value.high)}]"
    known = None
    if session.before is not None:
        known = session.before.tests.get(test)
    before = {} if known is None else known.values(metric)
    if not before:
        return f"{test}: {figure}{'' if session.before is None else ', not in the baseline'}", None
    if turns is None:
        now = dict(enumerate(values))
    else:
        now = turns.blocks(test, metric, values[0])
    if turns is not None and turns.number + 1 < turns.planned:
        return f"{test}: {figure}, turn {turns.number + 1} of {turns.planned}: judged in the last", None
    verdict = judge_times(now, before, margin, session.paired)
    text = wording.format_gate_verdict(verdict, MEMORY if of_memory else THROUGHPUT)
    what = "is slower"
    if of_memory:
        what = "needs more memory"
    slower = f"{test} {what} than the baseline allows ({margin:.0%}): {text}"
    return f"{test}: {figure}, {text}", slower if verdict.kind == "slower" else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pluggy.Result[Any], None]:
    """Attaches the measurements to the test's report, which pytest-xdist sends from a worker to the controller."""
    outcome = yield
    if measurements := item.stash.get(MEASURED, None):
        from dataclasses import asdict

        outcome.get_result().dyno = [asdict(measurement) for measurement in measurements]
        measurements.clear()


class Collector:
    """Collects the measurements of all tests and workers, saves them and prints the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._measurements: dict[str, Measurement] = {}
        self._workers: set[str] = set()
        self._notes: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not (measured := getattr(report, "dyno", None)):
            return
        from dyno.library.baseline import Measurement

        self._measurements |= {data["name"]: Measurement(**data) for data in measured}
        if worker := getattr(report, "worker_id", None):
            self._workers.add(worker)

    # Run first, because the terminal reporter prints the summary in its own implementation of this hook.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.getoption("--dyno-save") is None or self._config.option.collectonly:
            return
        path = Path(self._config.getoption("--dyno-save"))
        why: str | None = None
        if session.exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            why = "the run was interrupted"
        elif not self._measurements:
            why = "no test measured anything"
        else:
            from dyno.contracts.model import UsageError
            from dyno.library.baseline import save

            turns = self._config.stash[SESSION].turns
            planned = 0
            if turns is not None:
                planned = turns.planned
            if turns is None or turns.earlier is None:
                earlier = None
            else:
                earlier = turns.earlier.run
            measurements, seconds = list(self._measurements.values()), self._config.getoption("--dyno-seconds")
            try:
                save(path.resolve(), measurements, seconds, planned, earlier)
            except UsageError as error:
                why = str(error)
            except OSError as error:
                why = error.strerror
        if why is not None:
            self._notes.append(f"{path} was not written: {why}")
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = [*(line for each in self._measurements.values() for line in each.line.splitlines()), *self._notes]
        if len(self._workers) > 1:
            lines.append(
                f"{len(self._workers)} workers measured at the same time, which makes times longer and noisier"
            )
        session = self._config.stash.get(SESSION, None)
        if session is not None and (before := session.before) is not None:
            from dyno.library.baseline import origin
            from dyno.report.tables import wording
            from dyno.stats.metric import MEMORY
            from dyno.stats.two_runs import GATE_CONFIDENCE

            if self._measurements:
                by = None
                if session.metric == "memory":
                    by = MEMORY
                lines.append(wording.explain_ratios(session.paired, wording.level(GATE_CONFIDENCE), by))
            lines += [
                f"{before.path} was measured with {name} {then}, and this is {name} {now}"
                for name, now in origin().items()
                if (then := before.origin[name]) is not None and then != now
            ]
            if not before.tests:
                lines.append(f"{before.path} has no tests: nothing is compared")
            missing = [name for name in before.tests if name not in self._measurements]
            lines += [f"{name}: in the baseline, not measured now" for name in missing]
        if lines:
            terminalreporter.section("dyno")
            for line in lines:
                terminalreporter.line(line)
