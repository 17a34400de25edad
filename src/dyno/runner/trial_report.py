"""What a worker has told of its trial, and how that ended. All text in it is made harmless here, where it comes in,
and is without passwords."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dyno.contracts.declarations import exception_text
from dyno.contracts.sample import Sample
from dyno.results import sample
from dyno.runner.feasibility import impossible
from dyno.runner.plan import Plan
from dyno.runner.worker_channel import ProtocolError, WorkerMessage
from dyno.text.passwords import mask_secrets
from dyno.text.sanitize import sanitize

ASKEW = "its clocks do not go as Dyno's own, so that no time of it counts: one is "
CLOSED = "something other than Dyno closed the pipe of the results"


@dataclass
class TrialReport:
    """So far."""

    on_phase: Callable[[str], None]
    began_ns: int
    secrets: tuple[str, ...] = ()
    """What an engine may put into what it says, and may stand nowhere."""
    phase: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    outcome: str | None = None
    why: str | None = None
    resources: dict[str, Any] = field(default_factory=dict)
    spent_ns: dict[str, int] = field(default_factory=dict)
    loop: dict[str, Any] | None = None
    absent: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    check_ns: int = 0
    """What the worker's checks of answers took in the phases that are over."""
    checking_since_ns: int | None = None
    """When a check began that is under way, on this process's clock."""
    _phase_after_ns: int = 0

    @property
    def begun(self) -> bool:
        """Whether the worker has said anything yet."""
        return self.loop is not None or self.phase is not None or bool(self.about) or self.outcome is not None

    def deadline(self, trial: float, timeout: float) -> float:
        """When the worker is to be ended, in s on the monotonic clock: the trial's own deadline, `trial`, put off by
        what checks took, or that of a check under way, which may take as long as the trial."""
        since_ns = self.checking_since_ns
        return trial + self.check_ns / 1e9 if since_ns is None else since_ns / 1e9 + timeout

    def hear(self, heard: WorkerMessage) -> None:
        """Takes in what the worker said. Raises Garbled for what can't be kept."""
        try:
            self._take(heard.event, heard)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(self.fit(f"what was told can't be: {type(error).__name__}: {error}")) from None

    def fit(self, told: Any, keep: str = "") -> Any:
        """What an engine said, to be shown and kept: a text, or texts in lists and by name. Text is on one line, but
        for the characters of `keep`."""
        if isinstance(told, dict):
            return {self.fit(name): self.fit(value, keep) for name, value in told.items()}
        if isinstance(told, list):
            return [self.fit(value, keep) for value in told]
        return sanitize(mask_secrets(told, self.secrets), keep=keep) if isinstance(told, str) else told

    def fit_lines(self, told: str | None) -> str | None:
        """The same of a text of several lines."""
        fit: str | None = self.fit(told, "\n\t")
        return fit

    def _take(self, event: dict[str, Any], heard: WorkerMessage) -> None:
        kind = event.pop("event")
        if kind == "check":
            self.checking_since_ns = self.checking_since_ns or heard.by_ns
            return
        self.checking_since_ns = None
        if kind == "phase":
            self.phase, self._phase_after_ns = event["phase"], heard.after_ns
            self.on_phase(event["phase"])
        elif kind == "engine":
            self.about = self.fit(event)
        elif kind == "loop":
            self.loop = event
        elif kind == "facts":
            self.facts = self.fit(event["facts"])
        elif kind == "absent":
            self.absent[event["phase"]] = self.fit_lines(event["why"]) or ""
        elif kind == "sample":
            self.samples.append(self._judged(event["sample"], heard))
            self.check_ns = int(event["check_ns"])
        elif kind == "end":
            self.outcome, self.why, self.resources = (
                event["outcome"],
                self.fit_lines(event["why"]),
                event["resources"],
            )
            self.spent_ns = event["spent_ns"]

    def _judged(self, told: dict[str, Any], heard: WorkerMessage) -> Sample:
        lines = {name: self.fit_lines(told[name]) for name in ("first_error", "void")}
        names = {of: {self.fit(name): found for name, found in told[of].items()} for of in ("by_kind", "by_part")}
        found = sample(told | lines | names | {name: self.fit(told[name]) for name in ("facts", "reported_by")})
        passed_ns, since_start_ns = heard.by_ns - self._phase_after_ns, heard.by_ns - self.began_ns
        why = impossible(found, passed_ns, since_start_ns, os.cpu_count() or 1)
        return found if why is None else replace(found, void=found.void or f"its figures can't be true: {why}")

    def conclude(self, verdict: str | None, status: int, plan: Plan, limit: int) -> None:
        """Settles the outcome from the watch's verdict and the exit status."""
        if verdict == "timeout":
            self.outcome, self.why = verdict, self._timed_out(plan.timeout)
        elif verdict == "out-of-memory":
            self.outcome, self.why = verdict, f"took more than {limit / (1 << 30):.2f} GiB of memory"
        elif verdict is not None:
            self.outcome, self.why = "error", verdict
        elif self.outcome in (None, "ok") and status != 0:
            self.outcome, self.why = "crash", _died(status)
        elif self.outcome is None:
            self.outcome, self.why = "crash", "ended without a result"

    def _timed_out(self, timeout: float) -> str:
        if self.checking_since_ns is not None:
            return (
                f"Dyno's own check of the answers was not done after {timeout:g} s: use less data, or raise --timeout"
            )
        apart = f", {self.check_ns / 1e9:.0f} s of Dyno's own checks apart" if self.check_ns >= 1e9 else ""
        return f"not done after {timeout:g} s{apart}"

    def lost(self, error: OSError) -> None:
        """The run's own process could not do its part: an engine took its directory away, perhaps."""
        self.outcome, self.why = "error", self.fit(f"{error.strerror or exception_text(error)}: {error.filename}")


def _died(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed by SIGKILL, perhaps by the kernel for want of memory"
    if status < 0:
        return f"killed by {_signal(-status)}"
    return f"exited with status {status} before it was done"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Of the real-time signals only the first and the last have names.
        return f"signal {number}"
