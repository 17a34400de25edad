"""Series: how many samples per second does an archive of process variables take in, how fast does it return one
variable or all, and how does that change as the archive grows?

Based on Mauro Giacchini and Robert Petkus, Performance tests of Hypertable, 2009.
"""

from functools import partial
from pathlib import Path

from dyno.contracts.declarations import defer_import
from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, choice, integer
from dyno.contracts.suite import Proof, Suite
from dyno.suites.series.ioc import PERIODS

VARIABLES, SAMPLES = 1_111, 1_600
"""Published numbers: 1,777,600 samples in half an hour."""
MILLION = 1_000_000

PB = ".pb"
"""Suffix of an Archiver Appliance's files."""


def archive(text: str) -> Value:
    """Parses the path of a PB file, of a directory with some, or an empty text. Raises ValueError."""
    path = Path(text)
    if text and not (path.is_file() or (path.is_dir() and any(path.rglob(f"*{PB}")))):
        raise ValueError(f"expected a file of an Archiver Appliance, or a directory with files *{PB} in or below it")
    if text:
        return str(path.resolve())
    return ""


def _scans(text: str) -> Value:
    return int(str(choice(*map(str, PERIODS))(text)))


_READS = ("extract-one", "extract-window", "extract-all", "latest", "downsample")
_HOT = tuple(f"{name}-hot" for name in _READS)
_WINDOWS = ("extract-window-cold", "extract-window-hot")
_STORED = ("insert", *_HOT, *(f"{name}-cold" for name in _READS), "visible")
"""Phases that use the dataset. `live` has its own store and variables."""

_KILLED = "percent of batches after which insert kills a node; 0: none"
_count = integer(1, 100_000)
_stored = partial(Setting, phases=_STORED)
_live = partial(Setting, phases=("live",))
PARAMS = (
    _stored("variables", integer(1, 1_000_000), VARIABLES, "process variables, in groups of 1, 10, 100 and the rest"),
    _stored("per_half_hour", integer(1, 1_000_000), SAMPLES, "samples of each variable in half an hour"),
    _stored("half_hours", integer(1, 1_000_000), 1, "half-hours of data: 336 are a week, 1440 a month of 30 days"),
    _stored("batch", integer(1, 10_000_000), 10_000, "approximate samples of a batch: whole scans of all variables"),
    _stored("late_ppm", integer(0, MILLION), 500, "samples of a million that arrive 1 to 20 batches late"),
    _stored("resent_ppm", integer(0, MILLION), 200, "samples of a million that arrive a second time, as they were"),
    _stored("corrected_ppm", integer(0, MILLION), 0, "samples of a million that arrive again with another value"),
    _stored("archive", archive, "", "PB files of an EPICS Archiver Appliance to use rather than generated samples"),
    Setting("reads", _count, 10, "variables read in a hot phase: whole, by window or by minutes", phases=_HOT),
    Setting("window_s", integer(1, 31 * 86_400), 300, "length of a window in seconds", phases=_WINDOWS),
    Setting("kill_percent", integer(0, 99), 0, _KILLED, phases=("insert",)),
    _live("live_variables", _count, 1_000, "process variables of live, which an IOC serves"),
    _live("live_hz", _scans, 10, "changes of each per second: 1, 2, 5 or 10"),
    _live("live_s", integer(1, 3_600), 10, "duration of live in seconds"),
    _live("live_period_ms", integer(1, 60_000), 100, "minimum milliseconds between two batches of live"),
    Setting("watched", _count, 10, "batches whose time to become visible is measured", phases=("visible",)),
)

PRESETS = {
    "quick": Preset({"variables": 50, "per_half_hour": 200, "batch": 500}, samples=3, budget=5, timeout=120),
    "standard": Preset({"half_hours": 1}, samples=5, budget=300, timeout=3_600),
    # Half-hours of a day.
    "full": Preset({"half_hours": 48}, samples=3, budget=7_200, timeout=36_000),
}

_EXACT, _EVERY = "every field of every sample", "every sample of every variable"
_DIGEST = "count and digest over all fields of all samples"
_MINUTES = "mean, minimum and maximum by the minute of one variable's last day"
VISIBLE = ("acknowledged", "readable")
_LIVE, _NUMBERS = "archive the events of an IOC as they come", "number and digest of all events; missing numbers"
_MEANS = "times, minima and maxima exactly, means to 1e-12 of the largest value"


_cold = partial(Phase, unit="sample", writes=False, temperature="cold", checked=_EXACT)
_hot = partial(Phase, unit="sample", writes=False, temperature="hot", checked=_EXACT)
_write = partial(Phase, writes=True, checked=_DIGEST)
PHASES = (
    _write(
        "insert",
        "insert all samples as they arrive, a batch at a time",
        unit="sample",
        says="{figure} samples stored a second",
    ),
    _cold("extract-one-cold", "all samples of one variable, from the device"),
    _hot("extract-one-hot", "all samples of one variable", says="{figure} samples of one variable read a second"),
    _cold("extract-window-cold", "a window of one variable, from the device"),
    _hot("extract-window-hot", "a window of one variable"),
    _cold("extract-all-cold", f"{_EVERY}, from the device", checked=_DIGEST, one_call="always"),
    _hot("extract-all-hot", _EVERY, checked=_DIGEST, one_call="always"),
    _cold("latest-cold", "the last sample of every variable, from the device", unit="op"),
    _hot(
        "latest-hot",
        "the last sample of every variable",
        unit="op",
        says="the last sample of every variable in {p50}",
    ),
    _cold("downsample-cold", f"{_MINUTES}, from the device", unit="op", checked=_MEANS),
    _hot("downsample-hot", _MINUTES, unit="op", checked=_MEANS, says="a day by the minute in {p50}"),
    _write("visible", "insert a batch, and wait until its last sample can be read", unit="op", parts=VISIBLE),
    _write("live", _LIVE, unit="event", checked=_NUMBERS, reported=True, by_default=False),
)


class SeriesSuite(Suite):
    name = "series"
    title = "an archive of process variables: samples taken in and given back, as it grows"
    ports = ("series",)
    params = PARAMS
    presets = PRESETS
    phases = PHASES
    # The batches are small, since each batch is a transaction.
    proof = Proof(
        "insert",
        count="per_half_hour",
        params={"variables": 10, "batch": 10, "late_ppm": 0, "resent_ppm": 0},
        history=defer_import("dyno.suites.series.workload:SeriesHistory"),
    )


SUITE = SeriesSuite()
