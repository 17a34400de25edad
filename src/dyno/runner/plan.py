"""The plan: what was asked for, made whole. Flags and plan files come in, cells and trials in shuffled order go out.

It reads declarations by the registry; it starts nothing and measures nothing.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from typing import Any

from dyno import registry
from dyno.contracts import quantities
from dyno.contracts.model import Preset, Trial, UsageError, Value
from dyno.contracts.pace import PATIENCE
from dyno.contracts.sample import Cell
from dyno.contracts.settings import Setting, by_cpus, percent, unknown
from dyno.contracts.suite import Suite
from dyno.measure.loop import pick
from dyno.options import PlanOptions, RunRequest, requested
from dyno.results import MOST_CELLS, beside
from dyno.runner.rows import EngineRow, hidden, rows_of
from dyno.text.passwords import secrets

DEFAULT_PRESET = "quick"
EVERY = "all"
"""Of phases."""
UNPACED, LEAST_RATE, MOST_RATE = "max", 1e-6, 1e9


def _rate(text: str) -> Value:
    try:
        rate = math.inf if text == UNPACED else float(quantities.number(text))
    except ValueError:
        rate = 0.0
    if text != UNPACED and not LEAST_RATE <= rate <= MOST_RATE:
        raise ValueError(f"wants operations a second, {LEAST_RATE:f} to {MOST_RATE:,.0f}, or {UNPACED}")
    if text == UNPACED:
        return text
    return int(rate) if rate.is_integer() else rate


# Every suite has them, so no suite declares them.
CLIENTS = Setting("clients", by_cpus(1, 1024), 1, "clients at work at the same time; cpus: as many as there are CPUs")
RATE = Setting(
    "rate", _rate, UNPACED, "operations a second that are due, of all clients together (an open loop); max: none is"
)
GENERAL = {setting.name: setting for setting in (CLIENTS, RATE)}
# Blocks before anybody looks how narrow the intervals are, and the seconds after which nobody waits any more.
UNTIL_BLOCKS, WITHIN = 6, 1800.0
# The longest measuring of a null engine's phase.
FLOOR_SECONDS = 0.3
# A trial's other work: opening, loading, checking.
SPARE_SECONDS = 60.0
NAMED = 6
"""Phases; of more, it says how many they are."""


@dataclass(frozen=True, kw_only=True)
class Plan(PlanOptions):
    """What will be run. Two plans that are equal make the same run."""

    suite: str
    phases: tuple[str, ...]
    cells: tuple[Cell, ...]
    declared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the suite says of its `phases`, its own table (`layout`) and `charts`, as plain JSON: they have places of
    their own in the run file, of which reports know no suite."""
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of users' own servers: as the cells have them, with what is secret hidden, to what they are. In no run file."""
    holds: Mapping[str, Callable[[str], AbstractContextManager[str]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """What a run holds for itself while it lasts, as the cells name it, each with what takes hold of it."""
    interpreters: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the engines that have one of their own: the path of the Python that their trials run in."""

    def interpreter(self, cell: Cell) -> str:
        """The Python that the cell's trials run in."""
        return self.interpreters.get(cell.engine, sys.executable)

    def options(self, cell: Cell) -> dict[str, Value]:
        """The cell's options as an engine needs them, with what is secret in them: not to be shown or kept."""
        return {name: self.addresses.get(str(value), value) for name, value in cell.options.items()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What may stand in nothing that is shown or kept."""
        return tuple(secret for address in self.addresses.values() for secret in secrets(address))

    def pace(self, cell: Cell) -> dict[str, Any]:
        """How long and how fast a cell's phases are measured: the fields of `pace.Pace`. A null engine's do not take
        longer for being asked to: its operations are alike."""
        rate, most = cell.params[RATE.name], FLOOR_SECONDS if beside(self.cells, cell) else math.inf
        return {
            "budget_ns": int(min(self.budget, most) * 1e9),
            "duration_ns": None if self.duration is None else int(min(self.duration, most) * 1e9),
            "warmup_ns": int(min(self.warmup, most) * 1e9),
            "rate": None if rate == UNPACED else rate,
            "arrivals": self.arrivals,
            "loop": self.loop,
            "seed": self.seed,
            # So that a phase ends, with what is done and checked, before the trial is killed.
            "check_ns": int(self.timeout / 2 * 1e9),
        }

    def block(self, number: int) -> list[Trial]:
        """One trial of every cell, in an order shuffled by the seed."""
        trials = [Trial(cell, number) for cell in range(len(self.cells))]
        random.Random(f"{self.seed}:{number}").shuffle(trials)
        return trials

    def data(self) -> dict[str, Any]:
        """As it stands in the run file, where the cells have a place of their own."""
        options = {each.name: getattr(self, each.name) for each in fields(PlanOptions)}
        if self.least == 1:
            # As in files of earlier versions, which can be resumed.
            del options["least"]
        return {"suite": self.suite, "phases": list(self.phases), **options}


def make(asked: RunRequest) -> Plan:
    """Everything resolved. Raises UsageError for what is not known, can't be combined or can't run here."""
    asked.check()
    pick(asked.loop or "auto")
    suite = registry.suite(asked.suite)
    name = asked.preset or DEFAULT_PRESET
    if name not in suite.presets:
        raise UsageError(unknown(f"suite {suite.name}: preset", name, suite.presets))
    preset = suite.presets[name]
    combinations = list(_combinations(suite, preset, asked))
    rows = rows_of(suite, asked, max(int(params["clients"]) for params in combinations))
    phases = _phases(suite, preset, asked.phases)
    _check_used(suite, asked.params, phases)
    until, within = _ending(asked, preset)
    if len(rows) * len(combinations) > MOST_CELLS:
        raise UsageError(f"the plan has {len(rows) * len(combinations):,} cells, of {MOST_CELLS:,} at most")
    addresses: dict[str, str] = {}
    rows = [row._replace(options=hidden(row.spec, row.options, addresses)) for row in rows]
    options: dict[str, Any] = {
        "budget": preset.budget,
        **requested(asked),
        "samples": _samples(asked, preset, until),
        "timeout": _timeout(asked, preset, suite, rows, phases),
        "until": until,
        "within": within,
        "least": preset.samples if asked.until is None and until is not None else 1,
    }
    return Plan(
        suite=suite.name,
        phases=phases,
        cells=tuple(
            Cell(suite.name, row.spec.name, row.options, row.tier, params, row.spec.floor, row.follows, row.label)
            for row in rows
            for params in combinations
        ),
        **options,
        declared={
            "phases": [phase.to_json() for phase in suite.phases if phase.name in phases],
            "layout": None if suite.layout is None else asdict(suite.layout),
            "charts": [asdict(chart) for chart in suite.charts],
        },
        addresses=addresses,
        holds={
            str(options[setting.name]): setting.hold
            for spec, options, *_ in rows
            for setting in spec.options
            if setting.hold is not None and options.get(setting.name)
        },
        interpreters={spec.name: str(own) for spec, *_ in rows if (own := spec.interpreter())},
    )


def _ending(asked: RunRequest, preset: Preset) -> tuple[float | None, float | None]:
    """How narrow intervals are to be, and within how many seconds; None for both where blocks are counted. A preset's
    own wish is for who says nothing of samples or times."""
    if asked.until is not None:
        return _until(asked.until), asked.within or WITHIN
    said = (asked.samples, asked.budget, asked.duration, asked.warmup)
    if preset.until is None or any(each is not None for each in said):
        return None, None
    return _until(preset.until), preset.within or WITHIN


def _until(text: str | float) -> float:
    try:
        return percent(str(text))
    except ValueError as error:
        raise UsageError(f"until {text}: {error}") from None


def _samples(asked: RunRequest, preset: Preset, until: float | None) -> int:
    if asked.samples is not None:
        return asked.samples
    return preset.samples if until is None else max(preset.samples, UNTIL_BLOCKS)


def _timeout(
    asked: RunRequest, preset: Preset, suite: Suite, rows: Sequence[EngineRow], phases: Sequence[str]
) -> float:
    """What was asked for, or the preset's, and more where phases are to last longer than the preset thought, or where
    servers take their time to start: once, and again for each cold phase."""
    if asked.timeout is not None:
        return asked.timeout
    wanted = (asked.duration or 0.0) + (asked.warmup or 0.0)
    starts = 1 + sum(phase.temperature == "cold" for phase in suite.phases if phase.name in phases)
    starting = max((spec.ask("starting", spec.resolve(options)) for spec, options, *_ in rows), default=0.0)
    return max(preset.timeout, (PATIENCE + 1) * len(phases) * wanted + SPARE_SECONDS) + starts * starting


def _phases(suite: Suite, preset: Preset, asked: Sequence[str]) -> tuple[str, ...]:
    """In the suite's order. Each may be asked for by its alias."""
    if EVERY in asked:
        return tuple(phase.name for phase in suite.phases if phase.by_default)
    known = {name: phase.name for phase in suite.phases for name in (phase.name, phase.alias) if name}
    for name in asked:
        if name not in known:
            raise UsageError(unknown(f"suite {suite.name}: phase", name, known))
    wanted = {known[name] for name in asked} or set(preset.phases)
    return tuple(phase.name for phase in suite.phases if (phase.name in wanted if wanted else phase.by_default))


def _check_used(suite: Suite, given: Mapping[str, Any], phases: Sequence[str]) -> None:
    """Raises UsageError for a given parameter that none of the phases uses: the run would seem to have varied it.

    One value that is the default, or a preset's, is accepted: the command that repeats a run names every parameter.
    """
    for setting in suite.params:
        if setting.name not in given or not setting.phases or set(setting.phases) & set(phases):
            continue
        known = [setting.default, *(preset.params.get(setting.name) for preset in suite.presets.values())]
        if len(given[setting.name]) > 1 or setting.read(given[setting.name][0], suite.name) not in known:
            raise UsageError(
                f"suite {suite.name}: parameter {setting.name} has no effect on {', '.join(phases)};"
                f" it is used by {', '.join(setting.phases)}"
            )


def _combinations(suite: Suite, preset: Preset, asked: RunRequest) -> Iterator[dict[str, Value]]:
    """The product of all parameters' values, the last one named varying fastest."""
    settings = {setting.name: setting for setting in suite.params} | GENERAL
    given = dict(asked.params)
    for name, values_asked in (("clients", asked.clients), ("rate", asked.rate)):
        if values_asked:
            if name in given:
                raise UsageError(f"{name} is given twice: by --{name} and by -p {name}=")
            given[name] = values_asked
    for name in given:
        if name not in settings:
            raise UsageError(unknown(f"suite {suite.name}: parameter", name, settings))
    values: dict[str, list[Value]] = {}
    for name, setting in settings.items():
        if name in given and not given[name]:
            raise UsageError(f"suite {suite.name}: parameter {name} has no value")
        usual = preset.params.get(name, setting.default)
        wanted = given.get(name, usual if isinstance(usual, tuple) else (usual,))
        # A preset's too: it may want what is not installed.
        read = [setting.read(text, f"suite {suite.name}: parameter") for text in wanted]
        values[name] = list(dict.fromkeys(read))
    if (cells := math.prod(map(len, values.values()))) > MOST_CELLS:
        raise UsageError(f"suite {suite.name}: {cells:,} combinations of parameters, of {MOST_CELLS:,} at most")
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


def unpaced(plan: Plan) -> str:
    """What a rate was asked of in vain, in a line; nothing where there is no such phase."""
    paced = [cell for cell in plan.cells if cell.params[RATE.name] != UNPACED]
    phases = [phase for phase in registry.suite(plan.suite).phases if phase.name in plan.phases]
    tools = [phase.name for phase in phases if paced and phase.reported]
    found = [p for p in phases if not p.reported and any(p.unpaced(cell.params) for cell in paced)]
    said = [f"{_few(tools)} (an outside tool does the work)"] if tools else []
    for why in dict.fromkeys(phase.one_call for phase in found):
        names = _few([phase.alias or phase.name for phase in found if phase.one_call == why])
        name, equals, _ = why.partition("=")
        how = f"{why} makes each one call; -p {name}=1 paces them" if equals else "one call does it all"
        said.append(f"{names} ({how})")
    return f"The rate has no effect on {', nor on '.join(said)}: measured at full speed" if said else ""


def _few(names: Sequence[str]) -> str:
    return f"{len(names)} phases" if len(names) > NAMED else ", ".join(names)
