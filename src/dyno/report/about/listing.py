"""What there is, from the declarations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier
from dyno.contracts.settings import Setting
from dyno.contracts.suite import Suite
from dyno.report.tables import grid, units

DECLARED = "†"
"""The sign of a tier that nobody has run against the real thing."""
NOT_NATIVE = "The native loop is not built here: the Python loop measures, and takes several times as long"
READY, UNTESTED, MISSING = "ready", "untested", "missing"
Through = Mapping[str, EngineSpec]
"""By the name of a suite: an engine as it is through the port that the suite measures it by."""


def overview(
    found: Sequence[Suite], engines: Sequence[EngineSpec], served: Mapping[str, Through], console: Console
) -> None:
    """A line for each suite and each engine."""
    _table(("suite", "what it asks"), [(suite.name, _short(suite.title)) for suite in found], console)
    console.print()
    states(engines, served, console)
    console.print(
        "\n`dyno list NAME` shows everything about a suite or an engine; `dyno install NAME` gets what is missing."
    )


def _short(title: str) -> str:
    """What stands before its first colon or bracket."""
    return title.partition(":")[0].partition(" (")[0]


def states(
    found: Sequence[EngineSpec], served: Mapping[str, Through], console: Console, suite: str | None = None
) -> None:
    """A line for each engine: whether it can run here. `suite`: as it is there, in place of all its suites."""
    rows, styles = [], dict[str, str]()
    for spec in found:
        mine = served[spec.name]
        known = [_state(mine[suite])] if suite else [_state(each) for each in mine.values()] or [_state(spec)]
        # By what it can do in any suite.
        state, style = next((each for each in known if each[1] == "green"), known[0])
        short = READY if style == "green" else UNTESTED if state.startswith(UNTESTED) else MISSING
        styles[short] = style
        rows.append((spec.name, short, _short(spec.title) if suite else ", ".join(mine)))
    _table(("engine", "here", "what it is" if suite else "suites"), rows, console, styles)


def suites(found: Iterable[Suite], console: Console) -> None:
    """The suites with their phases, parameters and presets."""
    listed = list(found)
    _table(("suite", "what it asks"), [(suite.name, suite.title) for suite in listed], console)
    for suite in listed:
        console.print(Text(f"\n{suite.name}: phases", "bold"))
        phases = [(phase.name, phase.title, f"{phase.unit}s", phase.checked) for phase in suite.phases]
        _table(("phase", "what it does", "counts", "how it is checked"), phases, console)
        console.print(Text(f"\n{suite.name}: parameters (-p NAME=VALUE[,VALUE...])", "bold"))
        _settings(suite.params, console)
        console.print(Text(f"\n{suite.name}: presets (--preset NAME)", "bold"))
        presets = [
            (name, units.params(preset.params), str(preset.samples), f"{preset.budget:g} s")
            for name, preset in suite.presets.items()
        ]
        _table(("preset", "parameters", "samples", "budget of a phase"), presets, console)


def engines(found: Sequence[EngineSpec], served: Mapping[str, Through], console: Console) -> None:
    """The engines, what they are known not to do, and their options."""
    console.print()
    alike = {spec.name: _alike(spec, served[spec.name]) for spec in found}
    rows, styles = list[Sequence[str]](), dict[str, str]()
    for spec in found:
        for at, (suites_, through, (state, style)) in enumerate(alike[spec.name]):
            tiers = ", ".join(_tier(through, tier) for tier in through.tiers) or units.UNKNOWN
            name, title = ("", "") if at else (spec.name, spec.title)
            rows.append((name, title, ", ".join(suites_), tiers, through.clients, state))
            styles[state] = style
    _table(("engine", "what it is", "suites", "tiers", "clients", "here"), rows, console, styles)
    console.print(Text("* the tier without --tier. Clients: how several share it; `one` refuses more.", "dim"))
    every = [through for each in alike.values() for _, through, _ in each]
    if any(DECLARED in _tier(spec, tier) for spec in every for tier in spec.tiers):
        console.print(
            Text(f"{DECLARED} declared, not proven. `dyno selftest --tiers` proves tiers, where it can.", "dim")
        )
    if lines := [line for spec in found for line in _gaps(spec)]:
        console.print(Text("\nKnown gaps", "bold"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)
    for spec in found:
        for name, options in _options(spec):
            console.print(Text(f"\n{name}: options (-e {spec.name}:OPTION=VALUE[+OPTION=VALUE])", "bold"))
            _settings(options, console)


def _alike(spec: EngineSpec, served: Through) -> list[tuple[list[str], EngineSpec, tuple[str, str]]]:
    """The suites of an engine, those together of which it says the same; itself where it is of none. With its state
    there, which is looked up once: it is looked for modules and programs."""
    found: dict[str, tuple[list[str], EngineSpec, tuple[str, str]]] = {}
    for suite, through in served.items():
        state = _state(through)
        same = repr((through.clients, list(through.tiers), through.default_tier, state))
        found.setdefault(same, ([], through, state))[0].append(suite)
    return list(found.values()) or [([], spec, _state(spec))]


def _gaps(spec: EngineSpec) -> Iterator[str]:
    """'ferretdb, records: atomicity (unsupported): why'."""
    for port, about in spec.ports.items():
        for gap in about.gaps:
            yield f"{spec.name}, {port}: {gap.check} ({gap.kind}): {gap.reason}"


def _options(spec: EngineSpec) -> Iterator[tuple[str, Sequence[Setting]]]:
    """Those of the engine, and those that it has through one port only."""
    if spec.options:
        yield spec.name, spec.options
    for port, about in spec.ports.items():
        if about.options:
            yield f"{spec.name}, {port}", about.options


def _tier(spec: EngineSpec, tier: Tier) -> str:
    """Its name and signs. Tier volatile promises nothing that could be proven."""
    declared = DECLARED if spec.untested and tier is not Tier.VOLATILE else ""
    return f"{tier.value}{'*' if tier is spec.default_tier else ''}{declared}"


def _state(spec: EngineSpec) -> tuple[str, str]:
    # Each is looked for once: there are hundreds.
    if spec.missing():
        return spec.remedy or str(spec.lacking()), "yellow"
    if needing := spec.needing():
        return needing, "yellow"
    if spec.untested:
        return f"{UNTESTED}: {spec.untested}", "yellow"
    return READY, "green"


def _settings(settings: Iterable[Setting], console: Console) -> None:
    rows = [(setting.name, str(setting.default) or "–", setting.help) for setting in settings]
    _table(("name", "default", "what it is"), rows, console)


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], console: Console, styles: Mapping[str, str] | None = None
) -> None:
    """`styles`: of a cell, by its text."""
    columns = [
        grid.Column(head, left=True, folds=place > 0, style="" if place else "bold")
        for place, head in enumerate(heads)
    ]
    grid.render(columns, rows, console, marks=styles)
