"""Published experiments as data: each a plan that repeats it, the figures that it printed, and what it says of
them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from dyno.contracts.model import UsageError
from dyno.contracts.settings import by_cpus, unknown
from dyno.published.findings import Contender, Finding, contenders, findings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class PublishedRow:
    """One line of a published table."""

    engine: str
    """Our engine of the same kind; it may not be here yet."""
    published_as: str
    phase: str
    items: int
    seconds: float
    per_second: float
    deviation_percent: float | None = None
    """Standard deviation of the seconds, in percent of them; None if none was printed."""
    at: float | None = None
    """Value of the parameter that grows (see `Grows`); None if the figure has no size."""


@dataclass(frozen=True)
class PublishedLine:
    """One line of a published table that has figures of several phases."""

    params: Mapping[str, str | int]
    """Of our cell that does the same."""
    figures: Mapping[str, str | float]
    """By the titles of the suite's own table; as they were printed where they have a unit."""


@dataclass(frozen=True)
class Matrix:
    """A published table of one figure by two things, in seconds: no line of it is a cell of ours."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    """As they were printed: what each is of, and a figure under each head."""
    phase: str
    """Of ours beside it."""
    part: str
    """Of its latency."""


@dataclass(frozen=True)
class Style:
    """How the experiment makes one figure of several runs: the least of the means of so many of them."""

    runs: int
    operations: int
    """Of each client in a run, whose mean duration is taken."""


@dataclass(frozen=True)
class Grows:
    """What an experiment was measured at, and is extrapolated to here, since it would take days."""

    parameter: str
    to: tuple[float, ...]
    named: tuple[str, ...]
    """What each of these is called: 'a week'."""

    @property
    def names(self) -> Mapping[float, str]:
        return dict(zip(self.to, self.named, strict=True))


@dataclass(frozen=True)
class PublishedCurve:
    """A column of a published table that has a line for each value of a parameter."""

    phase: str
    engine: str
    """Our engine of the same kind."""
    published_as: str
    values: tuple[float, ...]
    """Of the first so many of `Curves.at`: a column may end before the others do."""


@dataclass(frozen=True)
class Curves:
    """Published tables by the values of a parameter, one for each phase."""

    parameter: str
    metric: str
    """By which ours stand beside them."""
    unit: str
    at: tuple[float, ...]
    rows: tuple[PublishedCurve, ...]


@dataclass(frozen=True)
class Experiment:
    """A published experiment."""

    name: str
    title: str
    author: str
    year: int | None
    """None where it is not known."""
    machine: str
    notes: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    """Of a table with a phase in each line; there are these, `lines` or `curves`, or none of them."""
    lines: tuple[PublishedLine, ...]
    curves: Curves | None
    plan: Mapping[str, Any]
    """As in a plan file."""
    sizes: Mapping[str, Mapping[str, Any]]
    """Of presets, by name: what is otherwise in the plan there, over what the suite says of that preset."""
    contenders: tuple[Contender, ...]
    style: Style | None
    """None for one whose figures are those of single runs."""
    grows: Grows | None
    """None of one that is repeated at its own sizes."""
    findings: tuple[Finding, ...]
    parts: Mapping[str, Mapping[str, float]]
    """Of phases, by name: each part of a latency in seconds; nothing where none were published."""
    matrix: Matrix | None

    @property
    def citation(self) -> str:
        return ", ".join(str(part) for part in (self.author, self.title, self.year) if part is not None)

    def sized(self, preset: str | None) -> Mapping[str, Any]:
        """The plan at another size than the published one."""
        if preset is None:
            return self.plan
        return {**self.plan, **self.sizes.get(preset, {}), "preset": preset}


def names() -> list[str]:
    """The experiments that there are."""
    found = (entry.name for entry in files(__package__).iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def experiment(name: str) -> Experiment:
    """Raises UsageError, with the nearest name, for one that is not there."""
    if name not in names():
        raise UsageError(unknown("experiment", name, names()))
    return parse(name, tomllib.loads((files(__package__) / f"{name}.toml").read_text(encoding="utf-8")))


def parse(name: str, data: Mapping[str, Any]) -> Experiment:
    """Of what is in a file. Raises UsageError for a finding that can't be checked as it is written."""
    left = {"year": None, **_here(dict(data))}
    params, columns = left.pop("params", ()), left.pop("columns", ())
    rows = tuple(_row(row, columns, name) for row in left.pop("rows", ()))
    lines = tuple(_line(dict(zip(columns, line, strict=True)), params) for line in left.pop("lines", ()))
    taking_part = contenders(left.pop("contenders", ())) or _contenders(rows, left["plan"])
    known = {each.name: each.engine for each in taking_part}
    style, grows, matrix, curves = (left.pop(each, None) for each in ("style", "grows", "matrix", "curves"))
    return Experiment(
        name=name,
        rows=rows,
        lines=lines,
        curves=None if curves is None else _curves(curves),
        notes=tuple(left.pop("notes")),
        sizes=left.pop("sizes", {}),
        parts=left.pop("parts", {}),
        contenders=taking_part,
        style=None if style is None else Style(**style),
        grows=None if grows is None else Grows(grows["parameter"], tuple(grows["to"]), tuple(grows["named"])),
        findings=findings(left.pop("findings", ()), known, name),
        matrix=None if matrix is None else _matrix(matrix),
        **left,
    )


def _row(values: Sequence[Any], columns: Sequence[str], name: str) -> PublishedRow:
    """A row of a published table, its fields named by `columns`; a short row lacks the last of them."""
    if len(values) > len(columns):
        raise UsageError(f"{name}: row {values}: {len(values)} values for {len(columns)} columns")
    return PublishedRow(**dict(zip(columns, values, strict=False)))


_clients = by_cpus(1, 1024)


def _here(data: Any) -> Any:
    """With numbers of this machine where `clients`, or a claim's `ratio`, are told by its CPUs: 'cpus'."""
    if isinstance(data, list):
        return [_here(each) for each in data]
    if not isinstance(data, dict):
        return data
    by_them = ("clients", *(["ratio"] if isinstance(data.get("ratio"), str) else []))
    return {name: _counted(value) if name in by_them else _here(value) for name, value in data.items()}


def _counted(value: Any) -> Any:
    if isinstance(value, list):
        return list(dict.fromkeys(map(_counted, value)))
    return _clients(str(value))


def _contenders(rows: Sequence[PublishedRow], plan: Mapping[str, Any]) -> tuple[Contender, ...]:
    """Where a file does not list them: those of its rows, or the plan's engines."""
    named = {row.published_as: row.engine for row in rows} or {name: name for name in plan["engine"]}
    return tuple(Contender(name, name, engine) for name, engine in named.items())


def _matrix(found: Mapping[str, Any]) -> Matrix:
    lines = tuple(tuple(line) for line in found["lines"])
    return Matrix(**{**found, "heads": tuple(found["heads"]), "lines": lines})


def _curves(data: Mapping[str, Any]) -> Curves:
    rows = tuple(
        PublishedCurve(**{**row, "values": tuple(row["values"])})
        for row in (dict(zip(data["columns"], values, strict=True)) for values in data["rows"])
    )
    return Curves(data["parameter"], data["metric"], data["unit"], tuple(data["at"]), rows)


def _line(cells: Mapping[str, Any], params: Sequence[str]) -> PublishedLine:
    figures = {name: value for name, value in cells.items() if name not in params}
    return PublishedLine({name: cells[name] for name in params}, figures)
