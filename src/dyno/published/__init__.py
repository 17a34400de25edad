"""Published experiments as data: each has a plan that repeats it, its printed figures, and its findings.

A finding is a statement with the claims that it makes. A claim is about rows of a run, and can be checked on another
machine: a contender is faster than others, or smaller, or sometimes fails. `stats.findings` checks claims; this
module neither reads a run nor knows a suite. docs/reference/published-experiments.md describes the format.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.model import UsageError, Value
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import by_cpus, unknown
from dyno.published import transcription
from dyno.published.order import Order

MORE, LESS = ("faster", "more", "fastest", "most"), ("slower", "less", "slowest", "least")
ALL = ("fastest", "slowest", "most", "least")
"""Relations of one contender to all others."""
ABOUT, FAILS = "about", "fails"
RELATIONS = (*MORE, *LESS, ABOUT, FAILS)
OF_ITSELF = {"than_params", "than_phase", "than_fact"}
"""Keys in which the two sides of a claim may differ. With one of them, both sides may be the same contender."""
WITHIN = 0.25
"""Default tolerance of `about`."""


@dataclass(frozen=True)
class Contender:
    """A system of a published experiment, and the engine that is measured here."""

    name: str
    """Name of the system in the statements."""
    published_as: str
    """Name of the system with its version."""
    engine: str
    """Name of the engine in runs, with the options in alphabetical order."""
    stand_in: str = ""
    """Name of the system that is measured here, if it is another system. Empty for the published system or its
    successor."""

    @property
    def title(self) -> str:
        """'MySQL (here MariaDB)'. Every figure of a stand-in has this title."""
        return f"{self.name} (here {self.stand_in})" if self.stand_in else self.name


@dataclass(frozen=True)
class Claim:
    """A relation of rows of a run to other rows of the same phase."""

    of: str
    """Name of the engine in runs."""
    relation: str
    than: tuple[str, ...]
    """The engines of the other rows; may contain the same engine, with other parameters."""
    phases: tuple[str, ...]
    params: Mapping[str, tuple[Value, ...]]
    """Values that both sides may have. Parameters that are not listed may have any value."""
    metric: str
    """A metric of `stats.metric`, or the name of a fact."""
    fact: bool
    low: float
    """Bounds of the ratio of speeds (more is better) or of facts. For `fails`, `low` is the least share of trials."""
    high: float
    of_params: Mapping[str, Value] = field(default_factory=dict)
    than_params: Mapping[str, Value] = field(default_factory=dict)
    """Values of one side only, in which the two sides differ."""
    across_tiers: str = ""
    """Why two tiers may be compared, in phases that write nothing. Empty if they may not."""
    across_tools: str = ""
    """Why figures of two outside tools may be compared. Empty if they may not."""
    than_phase: str = ""
    """Phase of the other row, if it is another phase."""
    than_fact: str = ""
    """Fact of the other side, if it is another fact."""


@dataclass(frozen=True)
class Finding:
    """A statement. It is confirmed if all of its claims hold."""

    claims: tuple[Claim, ...]
    says: str = ""
    """The statement in the words of the published text."""
    shows: str = ""
    """The finding in Dyno's words, if a published table shows it without a statement. A finding has either `says` or
    `shows`."""
    read_as: str = ""
    """How ambiguous words of the statement are read."""
    unchecked: str = ""
    """Why the finding has no claim."""


def findings(data: Sequence[Mapping[str, Any]], known: Mapping[str, str], where: str) -> tuple[Finding, ...]:
    """Parses the tables of a file. `known` has each contender's engine, by the contender's name. Raises UsageError
    for a finding that can't be checked."""
    parsed = []
    for at, each in enumerate(data, 1):
        place = f"{where}: finding {at}"
        claims = tuple(_claim(dict(claim), known, place) for claim in each.get("claims", ()))
        try:
            finding = Finding(**{**each, "claims": claims})
        except TypeError as error:
            raise UsageError(f"{place}: {error}") from None
        if bool(finding.says) == bool(finding.shows):
            raise UsageError(f"{place}: expected either says or shows")
        if bool(claims) == bool(finding.unchecked):
            raise UsageError(f"{place}: expected either claims or unchecked")
        parsed.append(finding)
    return tuple(parsed)


def _claim(data: dict[str, Any], known: Mapping[str, str], where: str) -> Claim:
    relation, of = data.pop("relation", None), data.pop("of", None)
    if relation not in RELATIONS:
        raise UsageError(unknown(f"{where}: relation", relation, RELATIONS))
    than = data.pop("than", None)
    if not than and not OF_ITSELF.isdisjoint(data):
        than = (of,)
    elif not than:
        than = tuple(name for name in known if name != of) if relation in ALL else ()
    for name in (of, *than):
        if name not in known:
            raise UsageError(unknown(f"{where}: contender", name, known))
    phases = data.pop("phases", ())
    if bool(phases) == (relation == FAILS):
        raise UsageError(f"{where}: phases are required for every relation except {FAILS}, which has none")
    if not than and relation != FAILS:
        raise UsageError(f"{where}: than is required for {relation}")
    low, high = _bounds(relation, data, where)
    fact, metric = data.pop("fact", None), data.pop("metric", "throughput")
    params = {
        name: tuple(value) if isinstance(value, list) else (value,) for name, value in data.pop("params", {}).items()
    }
    if more := data.keys() - {each.name for each in fields(Claim)}:
        raise UsageError(f"{where}: unknown keys of a claim by {relation}: {', '.join(more)}")
    engines, measured = tuple(known[name] for name in than), fact or metric
    return Claim(known[of], relation, engines, tuple(phases), params, measured, fact is not None, low, high, **data)


def _bounds(relation: str, data: dict[str, Any], where: str) -> tuple[float, float]:
    """Returns the bounds from 'by', 'at_most', 'ratio' and 'within', or for `fails` from 'at_least'."""
    if relation == FAILS:
        share = data.pop("at_least", None)
        if not isinstance(share, float) or not 0 < share < 1:
            raise UsageError(f"{where}: at_least: expected a share of the trials between 0 and 1, got {share}")
        return share, 1.0
    if relation == ABOUT:
        ratio, within = data.pop("ratio", None), data.pop("within", WITHIN)
        if not isinstance(ratio, (int, float)) or ratio <= 0 or not 0 < within < 1:
            raise UsageError(f"{where}: expected a ratio over 0, and within between 0 and 1")
        return ratio * (1 - within), ratio * (1 + within)
    least, most = data.pop("by", 1), data.pop("at_most", math.inf)
    if not 1 <= least < most:
        raise UsageError(f"{where}: expected factors of at least 1, by less than at_most; got {least} and {most}")
    return (least, most) if relation in MORE else (1 / most, 1 / least)


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table that has one phase in each row."""

    engine: str
    """Dyno's engine of the same kind; it may not be available here."""
    published_as: str
    phase: str
    items: str = ""
    """The figures as printed; empty if none was printed."""
    time: str = ""
    per_second: str = ""
    at: float | None = None
    """Value of the parameter that grows (see `Grows`); None if the figure has no size."""


@dataclass(frozen=True)
class PublishedLine:
    """A row of a published table with figures of several phases."""

    params: Mapping[str, str | int]
    """Parameters of Dyno's cell."""
    figures: Mapping[str, str]
    """Figures as printed, by title of the suite's own table."""


@dataclass(frozen=True)
class Matrix:
    """A published table of one figure in seconds by two properties that are not parameters of Dyno's cells."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    """Lines as printed: a name, and a figure for each head."""
    phase: str
    """Dyno's phase that is shown next to the table."""
    part: str
    """The part of that phase's latency."""


@dataclass(frozen=True)
class Style:
    """How the experiment combines several runs into one figure: it publishes the least of their means."""

    runs: int
    operations: int
    """Operations of each client in a run."""


@dataclass(frozen=True)
class Grows:
    """Extrapolation to the published sizes, which would take days to measure."""

    parameter: str
    to: tuple[float, ...]
    named: tuple[str, ...]
    """The printed name of each size: 'a week'."""

    @property
    def names(self) -> Mapping[Any, str]:
        return dict(zip(self.to, self.named, strict=True))


@dataclass(frozen=True)
class PublishedCurve:
    """A column of a published table with a row for each value of a parameter."""

    phase: str
    engine: str
    """Dyno's engine of the same kind."""
    published_as: str
    values: tuple[float, ...]
    """Figures at the first values of `Curves.at`: a column may end before the others."""


@dataclass(frozen=True)
class Curves:
    """Published tables by the values of a parameter, one for each phase."""

    parameter: str
    metric: str
    """Dyno's metric that is shown next to the tables."""
    unit: str
    at: tuple[float, ...]
    rows: tuple[PublishedCurve, ...]


@dataclass(frozen=True)
class Timeline:
    """A published chart of a rate over time, which is shown next to a sketch of each trial's rate."""

    title: str
    phase: str
    params: Mapping[str, Value]
    published: tuple[str, str, str]
    """The rate at first, the rate at the end, and when it became steady, as printed."""
    after: str
    """Fact with the time until the rate was steady, in ns."""
    why: str
    """Fact with the reason why it was not."""


@dataclass(frozen=True)
class Passes:
    """Phases that pass over data once, so that their time is in proportion to its size."""

    title: str
    phases: tuple[str, ...]
    params: Mapping[str, Value]
    to: float
    """The size in bytes to which times are extrapolated."""
    named: str
    published: tuple[str, ...]
    """A row as printed: the phase, bytes, time, bandwidth, and the time at the size `to`."""


@dataclass(frozen=True)
class Experiment:
    """A published experiment. It has `rows`, `lines` or `curves`, or none of these."""

    name: str
    title: str
    question: str
    author: str
    machine: str
    notes: tuple[str, ...]
    plan: Mapping[str, Any]
    """Keys and values as in a plan file."""
    contenders: tuple[Contender, ...]
    rows: tuple[PublishedRow, ...]
    lines: tuple[PublishedLine, ...]
    order: Order
    quick_seconds: float
    """Time of a run with preset quick on a machine with 2 CPUs. Only the proportions between experiments matter."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Checksums of the published tables: see `transcription`."""
    curves: Curves | None = None
    year: int | None = None
    """None if unknown."""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keys that replace the plan's, by preset. The suite's preset of the same name applies too, unless the keys name
    another."""
    style: Style | None = None
    """None if the figures are those of single runs."""
    grows: Grows | None = None
    """None if the experiment is repeated at its own sizes."""
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Parts of a latency in seconds, by phase."""
    matrix: Matrix | None = None
    timeline: Timeline | None = None
    passes: Passes | None = None

    @property
    def citation(self) -> str:
        return ", ".join(str(part) for part in (self.author, self.title, self.year) if part is not None)

    def sized(self, preset: str | None) -> Mapping[str, Any]:
        """Returns the plan at the size of a preset; None stands for the published size."""
        if preset is None:
            return self.plan
        return {**self.plan, "preset": preset, **self.sizes.get(preset, {})}


def names() -> list[str]:
    """Returns the names of all experiments."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


def experiment(name: str, cpus: int | None = None) -> Experiment:
    """Reads an experiment. `cpus`: the CPUs of the machine that repeats it, by default this one. If there is none of
    this name, raises UsageError, which suggests the nearest name. Raises UsageError for a published table that was
    changed."""
    if name not in names():
        raise UsageError(unknown("experiment", name, names()))
    data = toml(Path(__file__).with_name(f"{name}.toml"))
    transcription.check(name, data)
    return parse(name, data, cpus)


def parse(name: str, data: Mapping[str, Any], cpus: int | None = None) -> Experiment:
    """Parses a file's content. Raises UsageError for a finding or an order that can't be checked."""
    rest = _resolved(dict(data), by_cpus(1, 1024, cpus))
    params, columns = rest.pop("params", ()), rest.pop("columns", ())
    rows = []
    for row in rest.pop("rows", ()):
        if len(row) > len(columns):
            raise UsageError(f"{name}: row {row}: {len(row)} values for {len(columns)} columns")
        # A short row lacks the last fields.
        rows.append(dict(zip(columns, row, strict=False)))
    lines = []
    for line in rest.pop("lines", ()):
        cells = dict(zip(columns, line, strict=False))
        lines.append({"params": {param: cells.pop(param) for param in params}, "figures": cells})
    contenders = rest.pop("contenders", ())
    if not contenders:
        # A file without contenders: take the engines of its rows, or else of its plan.
        engines = {row["published_as"]: row["engine"] for row in rows} or {
            each: each for each in rest["plan"]["engine"]
        }
        contenders = [{"name": each, "published_as": each, "engine": engine} for each, engine in engines.items()]
    if curves := rest.get("curves"):
        curves["rows"] = [dict(zip(curves["columns"], row, strict=True)) for row in curves["rows"]]
    engines_by_name = {each["name"]: each["engine"] for each in contenders}
    checked = findings(rest.pop("findings", ()), engines_by_name, name)
    parsed = {**rest, "name": name, "rows": rows, "lines": lines, "contenders": contenders}
    result = replace(msgspec.convert(parsed, Experiment), findings=checked)
    result.order.check(name, engines_by_name)
    return result


def _resolved(data: Any, count: Callable[[str], Value]) -> Any:
    """Replaces 'cpus' in `clients` and in a claim's `ratio` with the number of CPUs."""
    if isinstance(data, list):
        return [_resolved(each, count) for each in data]
    if not isinstance(data, dict):
        return data
    resolved = dict[str, Any]()
    for name, value in data.items():
        if name == "clients" and isinstance(value, list):
            resolved[name] = list(dict.fromkeys(count(str(each)) for each in value))
        elif name == "clients" or (name == "ratio" and isinstance(value, str)):
            resolved[name] = count(str(value))
        else:
            resolved[name] = _resolved(value, count)
    return resolved
