"""What there is, from the declarations alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dyno.engine import EngineSpec
from dyno.model import Tier
from dyno.report import units
from dyno.settings import Setting
from dyno.suite import Suite

DECLARED = "†"
"""The sign of a tier that nobody has run against the real thing."""
NOT_NATIVE = "The native loop is not built here: the Python loop measures, and takes several times as long"
Through = Mapping[str, EngineSpec]
"""By the name of a suite: an engine as it is through the port that the suite measures it by."""


def suites(found: Iterable[Suite], console: Console, whole: bool) -> None:
    """The suites; with `whole`, their phases, parameters and presets too."""
    table = _table("suite", "what it asks")
    listed = list(found)
    for suite in listed:
        table.add_row(suite.name, suite.title)
    console.print(table)
    for suite in listed if whole else ():
        console.print(Text(f"\n{suite.name}: phases", "bold"))
        phases = _table("phase", "what it does", "counts", "how it is checked")
        for phase in suite.phases:
            phases.add_row(phase.name, phase.title, f"{phase.unit}s", phase.checked)
        console.print(phases)
        console.print(Text(f"\n{suite.name}: parameters (-p NAME=VALUE[,VALUE...])", "bold"))
        console.print(_settings(suite.params))
        console.print(Text(f"\n{suite.name}: presets (--preset NAME)", "bold"))
        presets = _table("preset", "parameters", "samples", "budget of a phase")
        for name, preset in suite.presets.items():
            presets.add_row(name, units.params(preset.params), str(preset.samples), f"{preset.budget:g} s")
        console.print(presets)


def engines(found: Sequence[EngineSpec], served: Mapping[str, Through], console: Console, whole: bool) -> None:
    """The engines, and what they are known not to do; with `whole`, their options too."""
    console.print()
    table = _table("engine", "what it is", "suites", "tiers", "clients", "here")
    alike = {spec.name: _alike(spec, served[spec.name]) for spec in found}
    for spec in found:
        for at, (suites_, through, (state, style)) in enumerate(alike[spec.name]):
            tiers = ", ".join(_tier(through, tier) for tier in through.tiers) or units.UNKNOWN
            name, title = ("", "") if at else (spec.name, spec.title)
            table.add_row(name, title, ", ".join(suites_), tiers, through.clients, Text(state, style))
    console.print(table)
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
    for spec in found if whole else ():
        for name, options in _options(spec):
            console.print(Text(f"\n{name}: options (-e {spec.name}:OPTION=VALUE[+OPTION=VALUE])", "bold"))
            console.print(_settings(options))


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
    if spec.missing() and spec.remedy:
        return spec.remedy, "yellow"
    if lacking := spec.lacking():
        return lacking, "yellow"
    if spec.untested:
        return f"untested: {spec.untested}", "yellow"
    return "ready", "green"


def _settings(settings: Iterable[Setting]) -> Table:
    table = _table("name", "default", "what it is")
    for setting in settings:
        table.add_row(setting.name, str(setting.default) or "–", setting.help)
    return table


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, head in enumerate(heads):
        table.add_column(head, no_wrap=place == 0, style="bold" if place == 0 else "")
    return table
