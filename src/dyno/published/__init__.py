"""Published experiments as data: each has a plan that repeats it, its printed figures, and its findings.

`claims` has the findings. docs/reference/published-experiments.md describes the format.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from dyno.contracts.model import UsageError, Value
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import by_cpus, unknown_name_message
from dyno.contracts.value_types import JsonMapping, JsonObject
from dyno.published import transcription
from dyno.published.claims import Finding, findings
from dyno.published.order import Order


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
    beside: bool = False
    """Whether Dyno measures it in addition, so that published statements about all systems don't mean it."""
    phases: tuple[str, ...] = ()
    """Phases that it ran, for an engine that runs several tools. Empty for all phases of no other contender."""

    @property
    def title(self) -> str:
        """'MySQL (here MariaDB)'. Every figure of a stand-in has this title."""
        if self.stand_in:
            return f"{self.name} (here {self.stand_in})"
        return self.name


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
    """A published table of one figure by two properties that are not parameters of Dyno's cells."""

    title: str
    unit: str
    """Unit of the printed figures, which are numbers alone. This run's figures have units of their own."""
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
    def names(self) -> Mapping[float | tuple[float, ...], str]:
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
    plan: JsonMapping
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
    sizes: Mapping[str, JsonMapping] = field(default_factory=dict)
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

    def name_of(self, engine: str, phase: str = "") -> str:
        """Returns the title of the contender whose row of this phase has this engine; the engine if there is none."""
        of_engine = [each for each in self.contenders if each.engine == engine]
        of_phase = [each for each in of_engine if phase in each.phases]
        of_rest = [each for each in of_engine if not each.phases]
        named = [*of_phase, *of_rest, *of_engine]
        if named:
            return named[0].title
        return engine

    def plan_at_preset(self, preset: str | None) -> JsonMapping:
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
        raise UsageError(unknown_name_message("experiment", name, names()))
    data = toml(Path(__file__).with_name(f"{name}.toml"))
    transcription.check(name, data)
    return parse(name, data, cpus)


def parse(name: str, data: JsonMapping, cpus: int | None = None) -> Experiment:
    """Parses a file's content. Raises UsageError for a finding or an order that can't be checked."""
    rest = _resolve_cpus(dict(data), by_cpus(1, 1024, cpus))
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
    beside = [each["name"] for each in contenders if each.get("beside")]
    checked = findings(rest.pop("findings", ()), engines_by_name, name, rest.pop("needs", {}), beside)
    parsed = {**rest, "name": name, "rows": rows, "lines": lines, "contenders": contenders}
    result = replace(msgspec.convert(parsed, Experiment), findings=checked)
    result.order.check(name, engines_by_name)
    return result


def _resolve_cpus(data: object, count: Callable[[str], Value]) -> Any:
    """Replaces 'cpus' in `clients` and in a claim's `ratio` with the number of CPUs."""
    if isinstance(data, list):
        return [_resolve_cpus(each, count) for each in data]
    if not isinstance(data, dict):
        return data
    resolved = JsonObject()
    for name, value in data.items():
        if name == "clients" and isinstance(value, list):
            resolved[name] = list(dict.fromkeys(count(str(each)) for each in value))
        elif name == "clients" or (name == "ratio" and isinstance(value, str)):
            resolved[name] = count(str(value))
        else:
            resolved[name] = _resolve_cpus(value, count)
    return resolved
