"""What there is, from the declarations alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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


def engines(found: Sequence[EngineSpec], served: Mapping[str, Sequence[str]], console: Console, whole: bool) -> None:
    """The engines; with `whole`, their options too. `served` has the suites of each."""
    console.print()
    table = _table("engine", "what it is", "suites", "tiers", "clients", "here")
    for spec in found:
        tiers = (_tier(spec, tier) for tier in spec.tiers)
        state, style = _state(spec)
        table.add_row(
            spec.name,
            spec.title,
            ", ".join(served[spec.name]),
            ", ".join(tiers),
            spec.clients,
            Text(state, style),
        )
    console.print(table)
    console.print(Text("* the tier without --tier. Clients: how several share it; `one` refuses more.", "dim"))
    if any(DECLARED in _tier(spec, tier) for spec in found for tier in spec.tiers):
        console.print(
            Text(f"{DECLARED} declared, not proven. `dyno selftest --tiers` proves tiers, where it can.", "dim")
        )
    for spec in found if whole else ():
        if spec.options:
            console.print(Text(f"\n{spec.name}: options (-e {spec.name}:OPTION=VALUE[+OPTION=VALUE])", "bold"))
            console.print(_settings(spec.options))


def _tier(spec: EngineSpec, tier: Tier) -> str:
    """Its name and signs. Tier volatile promises nothing that could be proven."""
    declared = DECLARED if spec.untested and tier is not Tier.VOLATILE else ""
    return f"{tier.value}{'*' if tier is spec.default_tier else ''}{declared}"


def _state(spec: EngineSpec) -> tuple[str, str]:
    if spec.missing():
        return spec.install, "yellow"
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
