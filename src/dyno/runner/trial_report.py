"""A worker's report of its trial, and the trial's outcome. All text of the report is sanitized here, and secrets in
it are masked."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dyno.contracts.declarations import exception_text
from dyno.contracts.decoded_types import Fact, Loop, Resources
from dyno.contracts.passwords import mask_secrets
from dyno.contracts.profile import PhaseProfile, check_profile
from dyno.contracts.sanitize import sanitize
from dyno.fields import Sample
from dyno.measure.messages import (
    CheckBegan,
    EngineDescribed,
    Fields,
    LateClients,
    LoopDescribed,
    PhaseAbsent,
    PhaseBegan,
    PhaseMeasured,
    PhaseProfiled,
    TrialEnded,
    TrialFacts,
)
from dyno.measure.worker_protocol import ProtocolError, WorkerMessage
from dyno.results import check_sample
from dyno.runner.plan import Plan

WRONG_CLOCK = "the worker's clock disagrees with Dyno's; its timings are discarded: it is "
CLOSED = "something other than Dyno closed the worker's pipe"
SLACK_NS, ROUNDED_NS = 100_000_000, 1_000_000_000
"""Tolerance for times measured by another process, and for times rounded by an outside tool."""
MOST_ITEMS = 1_000
"""Maximum plausible number of items (which may be bytes) per ns of each client. For operations, each of which is
timed, the maximum is one."""
LINES = "\n\t"
"""Control characters that stay in a text of several lines."""
CLEANED = {
    **dict.fromkeys(("why", "first_error", "void"), LINES),
    **dict.fromkeys(("waits", "version", "settings", "caveats", "counters", "facts", "reported_by"), ""),
    **dict.fromkeys(("frames", "system_calls", "missing"), ""),
}
"""Fields of events with texts of the engine or the suite, and the control characters that stay in them."""
NESTED = ("sample", "profile", "client", "server")
"""Fields with fields of their own."""
BY_NAME = ("by_kind", "by_part")
"""Fields with histograms by a suite's names."""
NUMBERS = ("operations", "items", "elapsed_ns", "busy_ns", "errors", "checked", "wall_ns", "due", "bytes")


@dataclass
class TrialReport:
    """The events of a trial so far, and its outcome."""

    on_phase: Callable[[str], None]
    began_ns: int
    secrets: tuple[str, ...] = ()
    """Texts that are masked in every text from the worker."""
    phase: str | None = None
    engine: EngineDescribed | None = None
    samples: list[Sample] = field(default_factory=list)
    profiles: list[PhaseProfile] = field(default_factory=list)
    unprofiled: list[str] = field(default_factory=list)
    """What could not be profiled, a line each."""
    outcome: str | None = None
    why: str | None = None
    unavailable: bool = False
    """Whether an outside tool failed, or the server could not be reached."""
    resources: Resources = field(default_factory=Resources)
    spent_ns: Mapping[str, int] = field(default_factory=dict)
    loop: Loop | None = None
    absent: dict[str, str] = field(default_factory=dict)
    facts: Mapping[str, Fact] = field(default_factory=dict)
    check_ns: int = 0
    """Time that the worker's checks of answers took in completed phases."""
    checking_since_ns: int | None = None
    """When the current check began, on this process's clock."""
    late: str | None = None
    """Late clients and their waits, when the trial's time was over; '' if no client was late."""
    _phase_after_ns: int = 0

    @property
    def begun(self) -> bool:
        """Whether the worker has reported anything."""
        return any(each is not None for each in (self.loop, self.phase, self.engine, self.outcome))

    def deadline(self, trial: float, timeout: float) -> float:
        """Returns when to kill the worker, in s on the monotonic clock. It is the deadline `trial` plus the time of
        checks. A single check may take as long as a whole trial."""
        since_ns = self.checking_since_ns
        if since_ns is None:
            return trial + self.check_ns / 1e9
        return since_ns / 1e9 + timeout

    def clean(self, fields: Fields) -> Fields:
        """Sanitizes and masks those fields of an event that have texts of the engine or the suite."""
        return {name: self._clean_field(name, value) for name, value in fields.items()}

    def _clean_field(self, name: str, value: object) -> object:
        if name in NESTED and isinstance(value, dict):
            return self.clean(value)
        if name in BY_NAME and isinstance(value, dict):
            return {self.clean_text(each): histogram for each, histogram in value.items()}
        if name in CLEANED:
            return self._clean_texts(value, CLEANED[name])
        return value

    def _clean_texts(self, value: object, keep: str) -> object:
        """Cleans a text, or the texts in a list or dict."""
        if isinstance(value, dict):
            return {self.clean_text(name): self._clean_texts(each, keep) for name, each in value.items()}
        if isinstance(value, list):
            return [self._clean_texts(each, keep) for each in value]
        if isinstance(value, str):
            return self.clean_text(value, keep)
        return value

    def clean_text(self, text: str, keep: str = "") -> str:
        """Sanitizes and masks a text. `keep`: control characters that are not removed."""
        return sanitize(mask_secrets(text, self.secrets), keep=keep)

    def add(self, message: WorkerMessage) -> None:
        """Adds an event. Raises ProtocolError for a sample whose figures contradict each other."""
        event = message.event
        if isinstance(event, CheckBegan):
            self.checking_since_ns = self.checking_since_ns or message.by_ns
            return
        if isinstance(event, LateClients):
            self.late = event.waits
            return
        self.checking_since_ns = None
        if isinstance(event, PhaseBegan):
            self.phase = event.phase
            self._phase_after_ns = message.after_ns
            self.on_phase(event.phase)
        elif isinstance(event, EngineDescribed):
            self.engine = event
        elif isinstance(event, LoopDescribed):
            self.loop = event.loop
        elif isinstance(event, TrialFacts):
            self.facts = event.facts
        elif isinstance(event, PhaseAbsent):
            self.absent[event.phase] = event.why
        elif isinstance(event, PhaseMeasured):
            self.samples.append(self._check_sample(event.sample, message))
            self.check_ns = event.check_ns
        elif isinstance(event, PhaseProfiled):
            self._add_profile(event)
        elif isinstance(event, TrialEnded):
            self.outcome = event.outcome
            self.why = event.why
            self.resources = event.resources
            self.spent_ns = event.spent_ns
            self.unavailable = event.unavailable

    def _add_profile(self, event: PhaseProfiled) -> None:
        try:
            check_profile(event.profile)
        except ValueError as error:
            raise ProtocolError(f"malformed event from the worker: {self.clean_text(str(error))}") from None
        self.profiles.append(event.profile)
        self.unprofiled += event.missing

    def _check_sample(self, sample: Sample, message: WorkerMessage) -> Sample:
        """Returns the sample. It is void if its figures are impossible."""
        try:
            check_sample(sample)
        except ValueError as error:
            raise ProtocolError(f"malformed event from the worker: {self.clean_text(str(error))}") from None
        passed_ns = message.by_ns - self._phase_after_ns
        since_start_ns = message.by_ns - self.began_ns
        why = next(impossible(sample, passed_ns, since_start_ns, os.cpu_count() or 1), None)
        if why is None:
            return sample
        return replace(sample, void=sample.void or f"impossible figures: {why}")

    def conclude(self, verdict: str | None, status: int, plan: Plan, limit: int) -> None:
        """Sets the outcome from the watch's verdict and the worker's exit status."""
        if verdict == "timeout" and self.checking_since_ns is not None:
            why = f"Dyno's own check of the answers took more than {plan.timeout:g} s"
            self.outcome, self.why = verdict, f"{why}: use less data, or raise --timeout"
        elif verdict == "timeout":
            checks = ""
            if self.check_ns >= 1e9:
                checks = f" and {self.check_ns / 1e9:.0f} s of Dyno's own checks"
            late = ""
            if self.late:
                late = f": {self.late}"
            self.outcome, self.why = verdict, f"not done after {plan.timeout:g} s{checks}{late}"
        elif verdict == "out-of-memory":
            self.outcome, self.why = verdict, f"used more than {limit / (1 << 30):.2f} GiB of memory"
        elif verdict is not None:
            self.outcome = "error"
            self.why = self.clean_text(verdict)
        elif self.outcome in (None, "ok") and status != 0:
            self.outcome, self.why = "crash", _describe_exit(status)
        elif self.outcome is None:
            self.outcome, self.why = "crash", "ended without a result"

    def fail(self, error: OSError) -> None:
        """Records an error of this process, for example because the engine has removed a directory."""
        self.outcome = "error"
        self.why = self.clean_text(f"{error.strerror or exception_text(error)}: {error.filename}")


def _describe_exit(status: int) -> str:
    if status == -signal.SIGKILL:
        return "killed by SIGKILL, perhaps by the kernel because memory was short"
    if status < 0:
        # Python names only the first and the last real-time signal.
        named = -status in set(signal.Signals)
        return f"killed by {signal.Signals(-status).name if named else f'signal {-status}'}"
    return f"exited with status {status} before it was done"


def impossible(sample: Sample, passed_ns: int, since_start_ns: int, cores: int) -> Iterator[str]:
    """Yields reasons why a sample's figures are impossible. `passed_ns`: time since the event before its phase's
    preparation. `since_start_ns`: time since the trial began."""
    for name in NUMBERS:
        if (getattr(sample, name) or 0) < 0:
            yield f"{name} is {getattr(sample, name)}"
    elapsed_ns, wall_ns = sample.elapsed_ns, sample.wall_ns or 0
    clients_ns = max(elapsed_ns, 1) * sample.clients
    if wall_ns > passed_ns + SLACK_NS:
        yield f"it took {_s(wall_ns)}, but only {_s(passed_ns)} passed"
    if elapsed_ns > (wall_ns or passed_ns) + (SLACK_NS if sample.reported_by is None else ROUNDED_NS):
        yield f"measured {_s(elapsed_ns)}, but only {_s(wall_ns or passed_ns)} passed"
    if sample.busy_ns > clients_ns + SLACK_NS:
        yield f"the engine took {_s(sample.busy_ns)} of {_s(clients_ns)}"
    if sample.items > clients_ns * MOST_ITEMS:
        yield f"{sample.items:,} {sample.unit}s do not fit into {_s(elapsed_ns)}"
    if not sample.bulk and sample.reported_by is None and sample.operations > clients_ns:
        yield f"{sample.operations:,} operations do not fit into {_s(elapsed_ns)}"
    # A server starts and ends processes at any time. The CPU time of a process that was overlooked is added when it
    # ends, so the limit counts from the trial's start.
    for process, used, ns in (("client", sample.client, passed_ns), ("server", sample.server, since_start_ns)):
        cpu_ns = sum((used or {}).get(name) or 0 for name in ("user_ns", "system_ns"))
        if cpu_ns > cores * (ns + SLACK_NS):
            yield f"the {process} used {_s(cpu_ns)} of CPU time, but {cores} cores had {_s(cores * ns)}"


def _s(ns: int) -> str:
    return f"{ns / 1e9:.3g} s"
