"""The plan: what was asked for, made whole. Flags and plan files come in, cells and trials in shuffled order go out.

It reads declarations by the registry; it starts nothing and measures nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from dyno import registry
from dyno.model import (
    Cell,
    EngineSpec,
    Preset,
    Setting,
    Tier,
    Trial,
    UsageError,
    Value,
    integer,
    nearest,
    percent,
    unknown,
)
from dyno.passwords import concealed, passwords
from dyno.run.arrivals import ARRIVALS, UNIFORM
from dyno.run.loops import LOOPS, pick
from dyno.run.measure import PATIENCE
from dyno.suite import Suite

DEFAULT_PRESET = "quick"
UNPACED, MOST_RATE = "max", 1e9


def _rate(text: str) -> Value:
    try:
        rate = math.inf if text == UNPACED else float(text)
    except ValueError:
        rate = 0.0
    if text != UNPACED and not 0 < rate <= MOST_RATE:
        raise ValueError(f"wants operations a second, up to {MOST_RATE:,.0f}, or {UNPACED}")
    if text == UNPACED:
        return text
    return int(rate) if rate.is_integer() else rate


# Every suite has them, so no suite declares them.
CLIENTS = Setting("clients", integer(1, 1024), 1, "clients at work at the same time")
RATE = Setting(
    "rate", _rate, UNPACED, "operations a second that are due, of all clients together (an open loop); max: none is"
)
GENERAL = {setting.name: setting for setting in (CLIENTS, RATE)}
# Blocks before anybody looks how narrow the intervals are, and the seconds after which nobody waits any more.
UNTIL_BLOCKS, WITHIN = 6, 1800.0
# A trial's other work: opening, loading, checking.
SPARE_SECONDS = 60.0


@dataclass(frozen=True)
class Asked:
    """What a user asked for, from flags or a plan file; None is 'not said'."""

    suite: str
    engines: Sequence[str | Mapping[str, Any]] = ()
    """As on the command line, 'sqlite:journal_mode=wal+cache_mib=8', or a table of `name` and options."""
    params: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    samples: int | None = None
    until: str | float | None = None
    """'5%': blocks are added until each interval is that narrow to each side."""
    within: float | None = None
    preset: str | None = None
    tier: str | None = None
    clients: Sequence[Any] = ()
    rate: Sequence[Any] = ()
    phases: Sequence[str] = ()
    seed: int | None = None
    budget: float | None = None
    duration: float | None = None
    warmup: float | None = None
    arrivals: str | None = None
    loop: str | None = None
    timeout: float | None = None
    memory: int | None = None
    retries: int | None = None


@dataclass(frozen=True)
class Plan:
    """What will be run. Two plans that are equal make the same run."""

    suite: str
    phases: tuple[str, ...]
    cells: tuple[Cell, ...]
    samples: int
    """Blocks; the least number of them where `until` is given."""
    seed: int
    budget: float
    """Seconds of measuring for each phase of a trial, at most."""
    timeout: float
    """Seconds for a whole trial."""
    memory: int | None
    """Bytes for a trial; None for what the machine can spare."""
    retries: int
    duration: float | None = None
    """Seconds of measuring for each phase, in as many rounds as it takes; None for one round within the budget."""
    warmup: float = 0.0
    """Seconds of rounds before each phase, which are not recorded."""
    arrivals: str = UNIFORM
    """How an open loop's operations are spread over time."""
    loop: str = "auto"
    """Which loop measures: 'native', 'python', or the former where it was built."""
    until: float | None = None
    """Further blocks are added until each interval reaches no further than this share of its median."""
    within: float | None = None
    """Seconds after which no further block is begun; None where `until` is."""
    layout: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The suite's own table, as plain JSON; it has a place of its own in the run file."""
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of users' own servers: as the cells have them, with passwords hidden, to what they are. In no run file."""

    def options(self, cell: Cell) -> dict[str, Value]:
        """The cell's options as an engine needs them, passwords and all: not to be shown or kept."""
        return {name: self.addresses.get(str(value), value) for name, value in cell.options.items()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What may stand in nothing that is shown or kept."""
        return tuple(secret for address in self.addresses.values() for secret in passwords(address))

    def pace(self, cell: Cell) -> dict[str, Any]:
        """How long and how fast a cell's phases are measured: the fields of `run.measure.Pace`."""
        rate = cell.params[RATE.name]
        return {
            "budget_ns": int(self.budget * 1e9),
            "duration_ns": None if self.duration is None else int(self.duration * 1e9),
            "warmup_ns": int(self.warmup * 1e9),
            "rate": None if rate == UNPACED else rate,
            "arrivals": self.arrivals,
            "loop": self.loop,
            "seed": self.seed,
        }

    def block(self, number: int) -> list[Trial]:
        """One trial of every cell, in an order shuffled by the seed."""
        trials = [Trial(cell, number) for cell in range(len(self.cells))]
        random.Random(f"{self.seed}:{number}").shuffle(trials)
        return trials

    def data(self) -> dict[str, Any]:
        """As it stands in the run file, where the cells have a place of their own."""
        whole = asdict(self)
        del whole["cells"], whole["addresses"], whole["layout"]
        return {**whole, "phases": list(self.phases)}


def make(asked: Asked) -> Plan:
    """Everything resolved. Raises UsageError for what is not known, can't be combined or can't run here."""
    _check_numbers(asked)
    suite = registry.suite(asked.suite)
    name = asked.preset or DEFAULT_PRESET
    if name not in suite.presets:
        raise UsageError(unknown(f"suite {suite.name}: preset", name, suite.presets))
    preset = suite.presets[name]
    combinations = list(_combinations(suite, preset, asked))
    rows = _rows(suite, asked, max(int(params["clients"]) for params in combinations))
    phases = _phases(suite, asked.phases)
    addresses: dict[str, str] = {}
    rows = [(spec, _hidden(spec, options, addresses), tier) for spec, options, tier in rows]
    return Plan(
        suite=suite.name,
        phases=phases,
        cells=tuple(
            Cell(suite.name, spec.name, options, tier, params, spec.floor)
            for spec, options, tier in rows
            for params in combinations
        ),
        samples=_samples(asked, preset),
        seed=1 if asked.seed is None else asked.seed,
        budget=preset.budget if asked.budget is None else asked.budget,
        timeout=_timeout(asked, preset, len(phases)),
        memory=asked.memory,
        retries=1 if asked.retries is None else asked.retries,
        duration=asked.duration,
        warmup=asked.warmup or 0.0,
        arrivals=asked.arrivals or UNIFORM,
        loop=asked.loop or "auto",
        until=None if asked.until is None else _until(asked.until),
        within=None if asked.until is None else asked.within or WITHIN,
        layout=None if suite.layout is None else asdict(suite.layout),
        addresses=addresses,
    )


def _hidden(spec: EngineSpec, options: Mapping[str, Value], addresses: dict[str, str]) -> dict[str, Value]:
    """The options with the passwords of their addresses hidden. What they are is added to `addresses`."""
    shown = dict(options)
    for setting in spec.options:
        if setting.address and (address := str(options.get(setting.name, ""))) != concealed(address):
            shown[setting.name] = concealed(address)
            if addresses.setdefault(concealed(address), address) != address:
                raise UsageError(f"{concealed(address)} is given with two passwords; one server has one")
    return shown


def _until(text: str | float) -> float:
    try:
        return percent(str(text))
    except ValueError as error:
        raise UsageError(f"until {text}: {error}") from None


def _samples(asked: Asked, preset: Preset) -> int:
    if asked.samples is not None:
        return asked.samples
    return preset.samples if asked.until is None else max(preset.samples, UNTIL_BLOCKS)


def _timeout(asked: Asked, preset: Preset, phases: int) -> float:
    """What was asked for, or the preset's, and more where phases are to last longer than the preset thought."""
    if asked.timeout is not None:
        return asked.timeout
    wanted = (asked.duration or 0.0) + (asked.warmup or 0.0)
    return max(preset.timeout, (PATIENCE + 1) * phases * wanted + SPARE_SECONDS)


def _check_numbers(asked: Asked) -> None:
    """Here for flags and plan files alike."""
    least = {"samples": 1, "seed": 0, "budget": 0.01, "timeout": 1, "memory": 50 << 20, "retries": 0}
    least |= {"duration": 0.01, "warmup": 0, "within": 1}
    for name, low in least.items():
        value = getattr(asked, name)
        if value is not None and not low <= value < math.inf:
            raise UsageError(f"{name} is out of range: it wants {'50 MiB' if name == 'memory' else low} or more")
    if asked.budget is not None and asked.duration is not None:
        raise UsageError("budget (the most) and duration (exactly so long) of a phase exclude each other")
    if asked.within is not None and asked.until is None:
        raise UsageError(
            "within is the longest time of a run until its intervals are narrow: say until, such as 5%, too"
        )
    for name, value, known in (("arrivals", asked.arrivals, ARRIVALS), ("loop", asked.loop, LOOPS)):
        if value is not None and value not in known:
            raise UsageError(unknown(name, value, known))
    pick(asked.loop or "auto")


def _phases(suite: Suite, asked: Sequence[str]) -> tuple[str, ...]:
    known = [phase.name for phase in suite.phases]
    for name in asked:
        if name not in known:
            raise UsageError(unknown(f"suite {suite.name}: phase", name, known))
    return tuple(name for name in known if not asked or name in asked)


def _combinations(suite: Suite, preset: Preset, asked: Asked) -> Iterator[dict[str, Value]]:
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
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))


Row = tuple[EngineSpec, dict[str, Value], Tier]


def _rows(suite: Suite, asked: Asked, clients: int) -> list[Row]:
    """Engines with the options that were asked for, and a null engine for each tier among them."""
    tier = None if asked.tier is None else _tier(asked.tier)
    rows = _named(suite, asked, tier) if asked.engines else _default(suite, tier, clients)
    _check_clients(rows, clients)
    if not rows:
        raise UsageError(f"suite {suite.name}: no engine can run here; `dyno list` says what to install")
    return rows + _floors(suite, rows)


def _floors(suite: Suite, rows: Sequence[Row]) -> list[Row]:
    """The null engines of the suite's own port and of each port that a row is measured through, at each tier.

    Those that were asked for are not added again.
    """
    used = {suite.ports[0], *(registry.port_of(suite, spec) for spec, _, _ in rows)}
    floors = [spec for spec in registry.engines_for(suite) if spec.floor and registry.port_of(suite, spec) in used]
    there = [(spec.name, tier) for spec, _, tier in rows]
    tiers = list(dict.fromkeys(tier for _, _, tier in rows))
    wanted = ((spec, tier) for spec in floors for tier in tiers if tier in spec.tiers)
    return [(spec, {}, tier) for spec, tier in wanted if (spec.name, tier) not in there]


def _tier(name: str) -> Tier:
    try:
        return Tier(name)
    except ValueError:
        raise UsageError(unknown("tier", name, [tier.value for tier in Tier])) from None


def _default(suite: Suite, tier: Tier | None, clients: int) -> list[Row]:
    """Those that run without being named: installed, not a null engine, able to give the tier and to serve. Of a
    suite that says which, those alone."""
    specs = [s for s in registry.engines_for(suite) if s.by_default and not s.floor and not s.lacking()]
    specs = [s for s in specs if not suite.engines or s.name in suite.engines]
    able = [s for s in specs if clients == 1 or s.clients != "one"]
    return [(s, {}, tier or s.default_tier) for s in able if tier is None or tier in s.tiers]


def _named(suite: Suite, asked: Asked, tier: Tier | None) -> list[Row]:
    rows: list[Row] = []
    for text in asked.engines:
        name, given = split_engine(text)
        spec = registry.engine(name)
        if registry.port_of(suite, spec) is None:
            able = [s.name for s in registry.engines_for(suite)]
            raise UsageError(f"engine {name} has no port of suite {suite.name}; {nearest(name, able)}")
        if missing := spec.missing():
            raise UsageError(f"engine {name} needs {', '.join(missing)}: {spec.install}")
        resolved = spec.resolve(given)
        if lacking := spec.needs(resolved):
            raise UsageError(f"engine {name} {lacking}")
        row = (spec, {option: resolved[option] for option in given}, tier or spec.default_tier)
        _check_tier(spec, row[2], resolved)
        if row not in rows:
            rows.append(row)
    return rows


def _check_tier(spec: EngineSpec, tier: Tier, options: Mapping[str, Value]) -> None:
    if tier not in spec.tiers:
        gives = ", ".join(given.value for given in spec.tiers)
        raise UsageError(f"engine {spec.name} can't give tier {tier.value}; it gives: {gives}")
    if why := spec.refuse(tier, options):
        raise UsageError(f"engine {spec.name}: {why}")


def _check_clients(rows: Sequence[Row], most: int) -> None:
    for spec, _, _ in rows:
        if most > 1 and spec.clients == "one":
            raise UsageError(f"engine {spec.name} serves one client, not {most}; leave it out or ask for 1")


def split_engine(text: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """'sqlite:journal_mode=wal+cache_mib=8' as a name and its options. Raises UsageError."""
    if not isinstance(text, str):
        return text["name"], {option: value for option, value in text.items() if option != "name"}
    name, colon, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in rest.split("+") if colon else ():
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise UsageError(f"engine {concealed(text)}: options are written {name}:option=value+option=value")
        options[option] = value
    return name, options
