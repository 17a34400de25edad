"""Writes how long the tests took: a sum for each file, and the slowest tests. Works with pytest-xdist, whose workers
send their reports to the process that writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path

import pytest

SLOWEST = 50


class Durations:
    """Adds up the setup, call and teardown of each test."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._tests.items():
            files[test.partition("::")[0]] += seconds
        lines = [f"seconds  {len(self._tests)} tests, sum of all processes", _line(sum(self._tests.values()), "all")]
        lines += ["", "seconds  file", *(_line(seconds, name) for name, seconds in _longest_first(files))]
        lines += ["", f"seconds  {SLOWEST} slowest tests"]
        lines += [_line(seconds, test) for test, seconds in _longest_first(self._tests)[:SLOWEST]]
        self._file.write_text("\n".join(lines) + "\n")


def _longest_first(durations: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(durations.items(), key=itemgetter(1), reverse=True)


def _line(seconds: float, name: str) -> str:
    return f"{seconds:7.1f}  {name}"
