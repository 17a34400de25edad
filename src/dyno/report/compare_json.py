"""Keys of the JSON that `dyno compare --json` and `dyno check --json` print, in their order.

docs/reference/compare-json.md and `dyno schema compare` follow from these types.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from dyno.contracts.decoded_types import Value
from dyno.report.show_json import CPU
from dyno.stats.estimate import Estimate
from dyno.stats.two_runs import Difference
from dyno.stats.verdict import Verdict

T = TypeVar("T")


class Sides(Struct, Generic[T], frozen=True):
    before: T
    after: T


class Peak(Struct, frozen=True):
    client: int | None
    server: int | None
    """Null without a server."""


class VerdictInWords(Verdict, frozen=True, kw_only=True):
    text: str
    """The verdict in words."""


# Fields that are not `kw_only` come before those that are: so the verdict's keys are printed last.
class ComparedRow(VerdictInWords, frozen=True):
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    metric: str
    reported_by: str | None
    """The outside tool that measured; null if Dyno timed it."""
    engine: str
    label: str | None
    """The row's label; null if the user gave none."""


class WithinRow(ComparedRow, frozen=True):
    baseline: str
    baseline_label: str | None
    baseline_tier: str | None


class BetweenRow(ComparedRow, frozen=True):
    before: Estimate | None
    """Throughput in the first run, whatever the metric is."""
    after: Estimate | None
    bandwidth: Sides[Estimate | None]
    cpu_ns_per_item: Sides[CPU]
    peak_bytes: Sides[Peak]
    """The most resident memory in the phase."""


class GateRow(BetweenRow, frozen=True, kw_only=True):
    state: str
    """`slower` than the margin allows, `fine` or `unclear`."""


class OneSidedRow(Struct, frozen=True):
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    engine: str
    label: str | None


class RowWithReason(OneSidedRow, frozen=True):
    why: str
    """Why it has no number. Of two runs: in the later one, or in both."""


class Within(Struct, frozen=True):
    """A comparison of a run's engines."""

    schema: int
    """Version of this format: 1."""
    confidence: float
    """Of all intervals together, or with a requested baseline, of each."""
    margin: float
    run: str
    awake: bool
    comparisons: list[WithinRow]


class Between(Struct, frozen=True):
    """A comparison of two runs."""

    schema: int
    """Version of this format: 1."""
    confidence: float
    margin: float
    before: str
    """The first run file."""
    after: str
    awake: bool
    in_turns: bool
    """Whether ratios are taken block by block."""
    differences: Sequence[Difference]
    changes: Sequence[BetweenRow]
    lost: list[RowWithReason]
    """Rows with a number before and none after."""
    new: list[OneSidedRow]
    limited: list[OneSidedRow]
    """Rows with a number in both runs that are not compared: the load generator was the limit."""
    without: list[RowWithReason]
    """Rows that have no number, or not the metric, in either run."""


class Gate(Between, frozen=True):
    """The result of `dyno check`."""

    changes: Sequence[GateRow]
    passed: bool


class Several(Struct, frozen=True):
    """A comparison of several runs with the first."""

    schema: int
    """Version of this format: 1."""
    confidence: float
    """1 - 0.01 / n for n later runs: see [statistics](../explanations/statistics.md#several-runs)."""
    margin: float
    before: str
    """The first run file, with which the others are compared."""
    runs: list[Between]
    """For each later run, an object with the keys of [two runs](#two-runs)."""


class VersionFigure(Struct, frozen=True):
    version: str
    engine: str
    figure: Estimate | None
    """The metric's median over the samples."""


class VersionRow(WithinRow, frozen=True):
    version: str
    baseline_version: str


class VersionStep(VerdictInWords, frozen=True):
    """A change of speed. The verdict is on later versions from `after` to `until`, against earlier ones."""

    after: str
    """The speed changed after this version ..."""
    until: str
    """... and at or before this one."""
    version: str
    """The version that most probably changed it."""


class VersionSeries(Struct, frozen=True):
    """The versions of an engine in release order."""

    name: str
    """The engine with its options other than the version."""
    phase: str
    tier: str | None
    params: Mapping[str, Value]
    metric: str
    reported_by: str | None
    versions: list[VersionFigure]
    comparisons: list[VersionRow]
    """Each version against the oldest, or the requested baseline."""
    steps: list[VersionStep]
    """The changes of speed, in release order."""
    largest: VerdictInWords
    """The verdict on the pair of versions that may differ most."""
    text: str
    """The series in a sentence."""


class VersionAnswers(Struct, frozen=True):
    """A version that answers otherwise than the one before."""

    name: str
    phase: str
    params: Mapping[str, Value]
    before: str
    version: str
    difference: str
    """The first difference; empty if unknown."""


class ByVersion(Struct, frozen=True):
    """A comparison of the versions of engines."""

    schema: int
    """Version of this format: 1."""
    confidence: float
    """Confidence of all intervals together."""
    margin: float
    run: str
    awake: bool
    changed_answers: list[VersionAnswers]
    series: list[VersionSeries]
    without: list[RowWithReason]
    """Rows of a version that have no number."""
    unnamed: list[str]
    """Rows without a version, of engines that have versions in the run."""
