"""Converts a run request to a plan: cells, and trials in shuffled order.

This module reads declarations through the registry; it starts nothing and measures nothing.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dyno import registry
from dyno.contracts.cell import Cell
from dyno.contracts.limits import Limit, parse_all
from dyno.contracts.model import DECIDED, NotInstalled, Phase, Preset, Trial, UsageError, Value
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.pace import AUTO_LOAD, FLOOR_PATIENCE, LIBRARY_LOAD, NATIVE_LOAD, PATIENCE, POISSON, Pace
from dyno.contracts.passwords import secrets
from dyno.contracts.probe_time import BOUND_S, DISCARDED, LAST_S, LEAST_S, WARMUP_S
from dyno.contracts.profile import CPU
from dyno.contracts.roles import DefinableSuite, NativeSuite, RequestDefinedSuite, inline_definition, variants_of
from dyno.contracts.settings import Setting, by_cpus, percent, unknown_name_message
from dyno.contracts.suite import IN_FLIGHT, Suite
from dyno.host.interpreters import Python
from dyno.measure.loop import pick
from dyno.options import PlanOptions, RunRequest, requested_options
from dyno.results import MOST_CELLS, as_read, is_reference, planned_cells
from dyno.runner.engine_row import EngineRow
from dyno.runner.rates import RATE, UNPACED, check_rates
from dyno.runner.rows import check_remote, mask_addresses, natively_loadable, rows_of

DEFAULT_PRESET = "quick"
ALL_PHASES = "all"

CLIENTS = Setting("clients", by_cpus(1, 1024), 1, "clients at work at the same time; cpus: as many as there are CPUs")
GENERAL = {setting.name: setting for setting in (CLIENTS, RATE)}
"""Parameters that every suite has without declaring them."""
UNTIL_BLOCKS = 6
"""Number of blocks before the widths of intervals are judged."""
WITHIN = 1800.0
QUICK_WITHIN = 60.0
"""Maximum time of a run with `until` in s, unless it is requested; of the default preset, if `until` isn't either."""
FLOOR_SECONDS = 0.3
"""Maximum measuring time of a null engine's phase, in s..."""
FLOOR_DUE = 10
"""...or the time in which so many operations are due at a rate, if that is longer."""
SEARCH_PATIENCE = 3
"""Default timeout of a search's trials, as a multiple of its longest phase: slow engines take longer probes."""
PROFILED_SECONDS, PROFILED_SHARE = 2.0, 0.25
"""Measuring time of a profiled phase in s, unless it is requested, and the most that all phases may take of the
trial's timeout."""
SPARE_SECONDS = 60.0
"""Time for a trial's other work, in s: opening, loading, checking."""


@dataclass(frozen=True, kw_only=True)
class Plan(PlanOptions):
    """The plan of a run. Equal plans produce the same cells and trials."""

    suite: str
    phases: tuple[str, ...]
    cells: tuple[Cell, ...]
    seed: int = 1
    declared: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The preset, the suite's declarations of its `phases`, its own table (`layout`) and its `charts`, and the phases
    that native load could run (`native`), as plain JSON for the run file's header: reports don't import suites."""
    left_out: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Why values of parameters are left out."""
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Addresses of users' own servers, keyed by the masked form that cells have. Never written to a run file."""
    holds: Mapping[str, Callable[[str], AbstractContextManager[str]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """Resources that the run reserves until its end, such as a device: context managers, keyed by the option's
    value."""
    waiting: bool = field(default=True, repr=False, compare=False)
    """Whether processes wait for each other and wake cores: several clients, or a client and its server."""

    @property
    def measured_phases(self) -> tuple[Phase, ...]:
        """The declarations of its phases."""
        return tuple(phase for phase in self.made.phases if phase.name in self.phases)

    @property
    def made(self) -> Suite:
        """The suite, with the phases of the user's definition."""
        return registry.suite(self.suite, self.declared.get("definition"))

    def python(self, cell: Cell) -> Python:
        """Returns the Python that runs the cell's trials."""
        return registry.engine(cell.engine).python(cell.options)

    def options(self, cell: Cell) -> dict[str, Value]:
        """Returns the cell's options with unmasked addresses. They must not be printed or stored."""
        return {name: self.addresses.get(str(value), value) for name, value in cell.options.items()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must be masked wherever they are printed or stored."""
        return tuple(secret for address in self.addresses.values() for secret in secrets(address))

    def pace(self, cell: Cell, trial: Trial | None = None) -> Pace:
        """Returns the duration and the rate of a cell's phases. A probe's trial has its own. Null engines
        are measured briefly, because their operations hardly vary."""
        rate = None
        if cell.params[RATE.name] != UNPACED:
            rate = float(cell.params[RATE.name])
        most = math.inf
        if is_reference(self.cells, cell):
            if rate is None:
                most = FLOOR_SECONDS
            else:
                most = max(FLOOR_SECONDS, FLOOR_DUE / rate)
        trial = trial or Trial(0, 0)
        if trial.stage is not None:
            # A probe of a null engine takes as long as any other.
            most = math.inf
        duration = trial.seconds or self.duration
        if trial.profiled == CPU and duration is None:
            # A quick phase has too few samples to tell functions apart.
            duration = min(PROFILED_SECONDS, self.timeout * PROFILED_SHARE / len(self.phases))
        warmup = self.warmup
        limits = dict[str, int | None]()
        settling_ns = 0
        if trial.stage is not None and trial.seconds is not None:
            # A probe warms up at its rate, in the phase, so that its queue is not empty when counting begins.
            limits = {limit.text: limit.latency_ns for limit in self.limits}
            settling_ns = int((warmup + DISCARDED * trial.seconds) * 1e9)
            duration = warmup + trial.seconds
            warmup = 0.0
        return Pace(
            budget_ns=int(min(self.budget, most) * 1e9),
            duration_ns=None if duration is None else int(min(duration, most) * 1e9),
            warmup_ns=int(min(warmup, most) * 1e9),
            rate=trial.rate or rate,
            arrivals=self.arrivals,
            loop=self.loop,
            seed=self.seed,
            limits=limits,
            settling_ns=settling_ns,
            patience=FLOOR_PATIENCE if cell.floor else PATIENCE,
            # When half of the timeout is used for checks, the phase ends with the operations checked so far, rather
            # than by killing the trial.
            check_ns=int(self.timeout / 2 * 1e9),
        )

    def block(self, number: int) -> list[Trial]:
        """Returns a trial of every cell, in an order shuffled by the seed."""
        trials = [Trial(cell, number) for cell in range(len(self.cells))]
        random.Random(f"{self.seed}:{number}").shuffle(trials)
        return trials

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of a search for a capacity; empty for another run."""
        if self.limit:
            return parse_all(self.limit)
        return ()

    def data(self) -> dict[str, object]:
        """Returns the plan without its cells, for the run file's header."""
        options = {each.name: getattr(self, each.name) for each in fields(PlanOptions)}
        if not self.limit:
            del options["limit"], options["confirm"]
        # Left out so that files of earlier versions, which lack them, can be resumed.
        for name, usual in (("least", 1), ("load_from", None), ("plain_tcp", False), ("profile", False)):
            if options[name] == usual:
                del options[name]
        return {"suite": self.suite, "phases": list(self.phases), **options}


def make(request: RunRequest) -> Plan:
    """Resolves a request. Raises UsageError for unknown names, for options that exclude each other, and for engines
    that can't run here."""
    request.check()
    pick(request.loop or "auto")
    request, suite, definition = _define_suite(request)
    name = request.preset or DEFAULT_PRESET
    if name not in suite.presets:
        raise UsageError(unknown_name_message(f"suite {suite.name}: preset", name, suite.presets))
    preset = suite.presets[name]
    left_out = list[str]()
    combinations = list(_combinations(suite, preset, request, left_out))
    phases = _phases(suite, preset, request.phases)
    _check_used(suite, request.params, phases)
    native = [phase for phase in phases if any(_can_load(suite, phase, params) for params in combinations)]
    clients = max(int(params["clients"]) for params in combinations)
    several = any(int(params["clients"]) * int(params.get(IN_FLIGHT, 1)) > 1 for params in combinations)
    rows = rows_of(suite, request, clients, several and bool(native), left_out)
    left_out += _list_unused_variants(suite, rows)
    if request.load == NATIVE_LOAD and any(row.options.get(CLIENT) == NATIVE_CLIENT for row in rows):
        _check_native(suite, phases, combinations, own=definition is not None)
    cells = len(rows) * len(combinations)
    if cells > MOST_CELLS:
        raise UsageError(f"the plan has {cells:,} cells: expected at most {MOST_CELLS:,}")
    addresses: dict[str, str] = {}
    rows = [row._replace(options=mask_addresses(row.spec, row.options, addresses)) for row in rows]
    if not natively_loadable(suite, rows):
        native = []
    plan = Plan(
        suite=suite.name,
        phases=phases,
        cells=tuple(
            Cell(suite.name, row.spec.name, row.options, row.tier, params, row.spec.floor, row.follows, row.label)
            for row in rows
            for params in combinations
        ),
        **_resolve_options(request, suite, preset, rows, phases, cells),
        declared=_declare_suite(suite, name, phases, native, definition),
        left_out=tuple(left_out),
        addresses=addresses,
        holds={
            str(options[setting.name]): setting.hold
            for spec, options, *_ in rows
            for setting in spec.options
            if setting.hold is not None and options.get(setting.name)
        },
        waiting=any(params["clients"] != 1 or row.spec.server for row in rows for params in combinations),
    )
    if plan.limit:
        _check_searched(plan)
    check_rates(plan.measured_phases, plan.cells)
    if plan.load_from is not None:
        check_remote(plan.load_from, plan.plain_tcp, suite, phases, rows)
    elif plan.plain_tcp:
        raise UsageError("plain-tcp accepts a scheduler without TLS, and load-from names none")
    return plan


def _define_suite(request: RunRequest) -> tuple[RunRequest, Suite, Mapping[str, object] | None]:
    """Returns the request with parsed engines, and the suite with the definition that it is made from, if any. Raises
    UsageError."""
    suite = registry.suite(request.suite)
    definition: Mapping[str, object] | None = None
    if isinstance(suite, RequestDefinedSuite):
        entries = [suite.parse_entry(each) if isinstance(each, str) else each for each in request.engines]
        request = replace(request, engines=entries)
    if request.definition is not None:
        definition = inline_definition(suite, request.definition, request.base)
    elif isinstance(suite, RequestDefinedSuite):
        definition = suite.derive_definition(request.engines, request.params, request.base)
    if definition is not None:
        suite = registry.suite(request.suite, definition)
    if not suite.phases:
        how = "in the suite"
        if isinstance(suite, DefinableSuite):
            how = suite.defined_by
        raise UsageError(f"suite {suite.name} has no phases of its own: define them {how}")
    return request, suite, definition


def _list_unused_variants(suite: Suite, rows: Sequence[EngineRow]) -> list[str]:
    """Returns a line for each variant that has settings of other engines only."""
    engines = {row.spec.name for row in rows}
    return [
        f"variant {name}: it has settings of {', '.join(variant.options)} only"
        for name, variant in variants_of(suite).items()
        if not variant.everywhere and not engines & variant.options.keys()
    ]


def _resolve_options(
    request: RunRequest, suite: Suite, preset: Preset, rows: Sequence[EngineRow], phases: Sequence[str], cells: int
) -> dict[str, Any]:
    """Returns the options of the plan, by the names of their fields."""
    until, within = _resolve_ending(request, preset, cells)
    options: dict[str, Any] = {"budget": preset.budget}
    if request.limit:
        options |= {"arrivals": POISSON, "warmup": WARMUP_S, "duration": LEAST_S, "retries": 0}
    options |= requested_options(request)
    options |= {"samples": request.samples or preset.samples, "limit": [], "least": 1}
    options |= {"until": until, "within": within, "timeout": _timeout(request, preset, suite, rows, phases)}
    if request.limit:
        options |= {"samples": 1, "limit": [limit.text for limit in parse_all(request.limit)]}
    elif until is not None:
        fewest = preset.samples if until == DECIDED else max(preset.samples, UNTIL_BLOCKS)
        options["samples"] = request.samples or fewest
        if request.until is None and request.within is None:
            options["least"] = preset.samples
    return options


def _declare_suite(
    suite: Suite, preset: str, phases: Sequence[str], native: Sequence[str], definition: Mapping[str, object] | None
) -> dict[str, object]:
    """Returns the plan's field `declared`."""
    declared: dict[str, object] = {
        "preset": preset,
        "phases": [phase.to_json() for phase in suite.phases if phase.name in phases],
        "layout": suite.layout and asdict(suite.layout),
        "charts": [asdict(chart) for chart in suite.charts],
        "native": native,
    }
    if definition is not None:
        declared["definition"] = definition
    return declared


def _check_searched(plan: Plan) -> None:
    """Raises UsageError unless the plan's one phase can be offered at any rate, for any time."""
    if len(plan.phases) != 1:
        raise UsageError(f"limit: a search is of one phase: choose one of {', '.join(plan.phases)} by --phases")
    if any(cell.params[RATE.name] != UNPACED for cell in plan.cells):
        raise UsageError("limit and the parameter rate exclude each other: a search chooses its rates")
    (phase,) = plan.measured_phases
    if phase.reported or phase.temperature == "cold" or any(phase.ignores_rate(cell.params) for cell in plan.cells):
        why = "it is cold"
        if phase.reported:
            why = "an outside tool does the work"
        if phase.temperature != "cold" and not phase.reported:
            why = phase.one_call or "one call does it all"
        raise UsageError(f"limit: phase {phase.name} can't be offered at a rate: {why}")
    plan.probe_times(len(plan.cells)).check(len(plan.cells))


def _can_load(suite: Suite, phase: str, params: Mapping[str, Value]) -> bool:
    return isinstance(suite, NativeSuite) and suite.can_load_natively(phase, params)


def _check_native(
    suite: Suite, phases: Sequence[str], combinations: Iterable[Mapping[str, Value]], own: bool
) -> None:
    """Raises UsageError if native load can't run a phase with the requested kinds of operations, or a phase of the
    user's own definition."""
    chosen = [phase for phase in suite.phases if (own or phase.kinds) and phase.name in phases]
    for phase, params in product(chosen, combinations):
        if not _can_load(suite, phase.name, params):
            values = [f"{each.name}={params[each.name]}" for each in suite.params if phase.name in each.phases]
            reason = ""
            if values:
                reason = f" with {' '.join(values)}"
            elif own and isinstance(suite, NativeSuite):
                reason = f" ({suite.native_limits})"
            raise UsageError(f"load: native load can't run phase {phase.name}{reason}: use library")


def make_resumed(request: RunRequest, path: Path) -> Plan:
    """Resolves a request that continues the run file. In files of earlier versions, the library loads servers unless
    native load was requested."""
    plan = make(request)
    if request.load in (None, AUTO_LOAD) and path.is_file():
        cells = planned_cells(path)
        with_library = make(replace(request, load=LIBRARY_LOAD))
        if cells != as_read(plan.cells) and cells == as_read(with_library.cells):
            return with_library
    return plan


def longest_run(name: str, preset: Preset) -> float:
    """Returns the seconds after which a run of the preset of this name begins no further block."""
    if preset.within is not None:
        return preset.within
    return QUICK_WITHIN if name == DEFAULT_PRESET else WITHIN


def _resolve_ending(
    request: RunRequest, preset: Preset, cells: int
) -> tuple[float | Literal["decided"] | None, float | None]:
    """Returns when the run ends, as a target width of intervals or DECIDED, and its maximum time in s. Returns None
    for both if the number of blocks is fixed. The preset's applies unless samples or times are requested. A run that
    searches has a maximum time alone."""
    until, within = request.until, request.within
    if request.limit:
        return None, within or BOUND_S * cells
    if until is None and within is not None:
        until = DECIDED
    if until is None:
        counted = (request.samples, request.budget, request.duration, request.warmup)
        if preset.until is None or any(each is not None for each in counted):
            return None, None
        until, within = preset.until, longest_run(request.preset or DEFAULT_PRESET, preset)
    if until == DECIDED:
        return DECIDED, within or WITHIN
    try:
        return percent(str(until)), within or WITHIN
    except ValueError as error:
        raise UsageError(f"until {until}: {error}, or {DECIDED}") from None


def _timeout(
    request: RunRequest, preset: Preset, suite: Suite, rows: Sequence[EngineRow], phases: Sequence[str]
) -> float:
    """Returns the requested timeout. Without a request, returns the preset's, or a longer one if phases take longer
    than the preset expects. The server's start time is added once, and again for each cold phase."""
    if request.timeout is not None:
        return request.timeout
    phase_seconds = (request.duration or 0.0) + (request.warmup or 0.0)
    patience = PATIENCE + 1
    if request.limit:
        longest = max(request.duration or LEAST_S, LAST_S if request.confirm is None else request.confirm)
        phase_seconds = longest + (WARMUP_S if request.warmup is None else request.warmup)
        patience = SEARCH_PATIENCE
    starts = 1 + sum(phase.temperature == "cold" for phase in suite.phases if phase.name in phases)
    starting = max((spec.start_seconds(spec.resolve(options)) for spec, options, *_ in rows), default=0.0)
    return max(preset.timeout, patience * len(phases) * phase_seconds + SPARE_SECONDS) + starts * starting


def _phases(suite: Suite, preset: Preset, requested_names: Sequence[str]) -> tuple[str, ...]:
    """Returns the phases to measure, in the suite's order. A request may use aliases."""
    if ALL_PHASES in requested_names:
        return tuple(phase.name for phase in suite.phases if phase.by_default)
    known = {name: phase.name for phase in suite.phases for name in (phase.name, phase.alias) if name}
    for name in requested_names:
        if name not in known:
            raise UsageError(unknown_name_message(f"suite {suite.name}: phase", name, known))
    names = {known[name] for name in requested_names} or set(preset.phases)
    return tuple(phase.name for phase in suite.phases if (phase.name in names if names else phase.by_default))


def _check_used(suite: Suite, given: Mapping[str, Sequence[object]], phases: Sequence[str]) -> None:
    """Raises UsageError if the user sets a parameter that none of the phases uses, because the run would seem to vary
    it.

    A single value that is a default or a preset's value is accepted, because the command that repeats a run names
    every parameter.
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


def _combinations(
    suite: Suite, preset: Preset, request: RunRequest, left_out: list[str]
) -> Iterator[dict[str, Value]]:
    """Yields each combination of the parameters' values. The last parameter varies fastest. Leaves out values whose
    packages are not installed, unless none is left, and adds the reasons to `left_out`."""
    settings = {setting.name: setting for setting in suite.params} | GENERAL
    given = dict(request.params)
    for name, numbers in (("clients", request.clients), ("rate", request.rate)):
        if numbers:
            if name in given:
                raise UsageError(f"{name} is given twice: by --{name} and by -p {name}=")
            given[name] = numbers
    for name in given:
        if name not in settings:
            raise UsageError(unknown_name_message(f"suite {suite.name}: parameter", name, settings))
    values: dict[str, list[Value]] = {}
    for name, setting in settings.items():
        if name in given and not given[name]:
            raise UsageError(f"suite {suite.name}: parameter {name} has no value")
        default = preset.params.get(name, setting.default)
        texts, read = given.get(name, default if isinstance(default, tuple) else (default,)), dict[Value, None]()
        for text in texts:
            try:
                read[setting.read(text, f"suite {suite.name}: parameter")] = None
            except NotInstalled as why:
                left_out.append(str(why))
        if not read:
            raise UsageError(left_out[-1])
        values[name] = list(read)
    if (cells := math.prod(map(len, values.values()))) > MOST_CELLS:
        raise UsageError(f"suite {suite.name}: {cells:,} combinations of parameters: expected at most {MOST_CELLS:,}")
    for combination in product(*values.values()):
        yield dict(zip(values, combination, strict=True))
