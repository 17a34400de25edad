"""Checks on this machine that Dyno measures correctly: planted faults and costs of known size must be measured.

A check compares results with an independent calculation, which must not depend on the part that it guards.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message


@dataclass(frozen=True)
class CheckResult:
    """Result of a check. `passed` is None if this machine can't decide it; then `text` says why."""

    passed: bool | None
    text: str
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class SelfCheck:
    name: str
    guards: str
    """Property of Dyno that the check guards, as a sentence for users."""
    make: Callable[[Path], CheckResult]
    """Runs the check in a directory."""


def checks() -> tuple[SelfCheck, ...]:
    """Returns all checks, the quick ones first."""
    from dyno.selftest import machine, trials

    return (
        SelfCheck("clock", "the clock never runs backwards, not even between processes", machine.clock),
        SelfCheck("latency", "recorded latencies are those that operations had", machine.latency),
        SelfCheck("cold", "cold reads come from the device", machine.cold),
        SelfCheck("awake", "cores are kept awake when requested, and that slows nothing down", machine.check_awake),
        SelfCheck("client", "a client that limits its server is noticed", trials.client),
        SelfCheck("stall", "a stall is in the response times of all operations that waited", trials.stall),
        SelfCheck("same", "equal engines are not reported to differ", trials.check_equal_engines),
        SelfCheck("slower", "a slowdown of 10 % is found", trials.slower),
    )


def select_checks(names: Iterable[str]) -> list[SelfCheck]:
    """Returns the named checks in the order of `checks`; without names, all checks. Raises UsageError."""
    known, wanted = {check.name: check for check in checks()}, list(names)
    for name in wanted:
        if name not in known:
            raise UsageError(unknown_name_message("check", name, known))
    return [check for name, check in known.items() if not wanted or name in wanted]


def run_checks(wanted: Iterable[SelfCheck], work: Path) -> Iterator[tuple[SelfCheck, CheckResult]]:
    """Runs the checks one after the other. A check that raises an exception has failed."""
    for check in wanted:
        try:
            yield check, check.make(work)
        except Exception as error:
            yield check, CheckResult(False, f"{type(error).__name__}: {error}")
