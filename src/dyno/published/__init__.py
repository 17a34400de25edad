"""Published experiments as data: each has a plan that repeats it, its printed figures, and its findings."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import msgspec

from dyno.contracts.model import UsageError
from dyno.contracts.settings import by_cpus, unknown
from dyno.published.findings import Contender, Finding, findings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table that has one phase in each row."""

    engine: str
    """Dyno's engine of the same kind; it may not be available here."""
    published_as: str
    phase: str
    items: int
    seconds: float
    per_second: float
    deviation_percent: float | None = None
    """Standard deviation of the seconds, as a percentage of them; None if none was printed."""
    at: float | None = None
    """Value of the parameter that grows (see `Grows`); None if the figure has no size."""


@dataclass(frozen=True)
class PublishedLine:
    """A row of a published table with figures of several phases."""

    params: Mapping[str, str | int]
    """Parameters of Dyno's cell."""
    figures: Mapping[str, str | int | float]
    """Figures by title of the suite's own table. Figures with a unit are texts as printed."""


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
    def names(self) -> Mapping[float, str]:
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
class Experiment:
    """A published experiment. It has `rows`, `lines` or `curves`, or none of these."""

    name: str
    title: str
    author: str
    machine: str
    notes: tuple[str, ...]
    plan: Mapping[str, Any]
    """Keys and values as in a plan file."""
    contenders: tuple[Contender, ...]
    rows: tuple[PublishedRow, ...]
    lines: tuple[PublishedLine, ...]
    curves: Curves | None = None
    year: int | None = None
    """None if unknown."""
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keys that replace the plan's, by preset. The suite's own preset applies too."""
    style: Style | None = None
    """None if the figures are those of single runs."""
    grows: Grows | None = None
    """None if the experiment is repeated at its own sizes."""
    findings: tuple[Finding, ...] = ()
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Parts of a latency in seconds, by phase."""
    matrix: Matrix | None = None

    @property
    def citation(self) -> str:
        return ", ".join(str(part) for part in (self.author, self.title, self.year) if part is not None)

    def sized(self, preset: str | None) -> Mapping[str, Any]:
        """Returns the plan at the size of a preset; None stands for the published size."""
        if preset is None:
            return self.plan
        return {**self.plan, **self.sizes.get(preset, {}), "preset": preset}


def names() -> list[str]:
    """Returns the names of all experiments."""
    entries = (entry.name for entry in files(__package__).iterdir())
    return sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml"))


def experiment(name: str) -> Experiment:
    """Reads an experiment. If there is none of this name, raises UsageError, which suggests the nearest name."""
    if name not in names():
        raise UsageError(unknown("experiment", name, names()))
    return parse(name, tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8")))


def parse(name: str, data: Mapping[str, Any]) -> Experiment:
    """Parses a file's content. Raises UsageError for a finding that can't be checked."""
    rest = _resolved(dict(data))
    params, columns = rest.pop("params", ()), rest.pop("columns", ())
    rows = []
    for row in rest.pop("rows", ()):
        if len(row) > len(columns):
            raise UsageError(f"{name}: row {row}: {len(row)} values for {len(columns)} columns")
        # A short row lacks the last fields.
        rows.append(dict(zip(columns, row, strict=False)))
    lines = []
    for line in rest.pop("lines", ()):
        cells = dict(zip(columns, line, strict=True))
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
    checked = findings(rest.pop("findings", ()), {each["name"]: each["engine"] for each in contenders}, name)
    parsed = {**rest, "name": name, "rows": rows, "lines": lines, "contenders": contenders}
    return replace(msgspec.convert(parsed, Experiment), findings=checked)


_clients = by_cpus(1, 1024)


def _resolved(data: Any) -> Any:
    """Replaces 'cpus' in `clients` and in a claim's `ratio` with this machine's number of CPUs."""
    if isinstance(data, list):
        return [_resolved(each) for each in data]
    if not isinstance(data, dict):
        return data
    resolved = dict[str, Any]()
    for name, value in data.items():
        if name == "clients" and isinstance(value, list):
            resolved[name] = list(dict.fromkeys(_clients(str(each)) for each in value))
        elif name == "clients" or (name == "ratio" and isinstance(value, str)):
            resolved[name] = _clients(str(value))
        else:
            resolved[name] = _resolved(value)
    return resolved
