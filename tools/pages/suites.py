"""What suites declare: phases, parameters, presets, tables and charts, and the engines that take part."""

from __future__ import annotations

from collections.abc import Callable

from pages import engines
from pages.engines import accepted, shown
from pages.text import code, table

from dyno import registry
from dyno.contracts.model import Phase
from dyno.contracts.settings import Setting
from dyno.contracts.suite import Suite
from dyno.report.tables import units
from dyno.runner import plan
from dyno.runner.plan import longest_run


def names() -> list[str]:
    return sorted(registry.find_own("suite"))


def every() -> str:
    """A table of all suites."""
    rows = []
    for name in names():
        suite = registry.suite(name)
        rows.append((f"[{name}]({name}.md)", suite.title, str(len(suite.phases)), str(len(engines_of(suite)))))
    return table(("Suite", "What it measures", "Phases", "Engines"), rows)


def engines_of(suite: Suite) -> list[str]:
    return [spec.name for spec in engines.specs() if any(port in spec.ports for port in suite.ports)]


def facts(name: str) -> str:
    suite = registry.suite(name)
    specs = [spec for spec in engines.specs() if spec.name in engines_of(suite)]
    able = [spec for spec in specs if spec.listing.by_default and not spec.floor]
    default = code(*suite.engines) or "every engine that can run here without a server"
    default = default if able else "none: name them"
    rows = [
        ("Engines", ", ".join(f"[{engine}](../engines/{engine}.md)" for engine in engines_of(suite))),
        ("By default", default),
        ("Ports", code(*suite.ports)),
    ]
    return "\n".join(f"- **{title}:** {text}" for title, text in rows)


def phases(name: str) -> str:
    suite = registry.suite(name)
    rows = [
        (code(phase.name) + (f" ({code(phase.alias)})" if phase.alias else ""), *described(phase))
        for phase in suite.phases
    ]
    return table(("Phase", "What is done", "Measured", "Before", "Checked"), rows)


def described(phase: Phase) -> tuple[str, ...]:
    ranked = ""
    if phase.metric != "throughput":
        ranked = f", ranked by {phase.metric}"
    measured = f"{phase.unit}s per second{ranked}" + ("; by an outside tool" if phase.reported else "")
    if phase.kinds:
        measured += f"; kinds: {code(*phase.kinds)}"
    if phase.parts:
        measured += f"; parts: {code(*phase.parts)}"
    before = {"hot": "an untimed round", "cold": "closed and evicted", "none": ""}[phase.temperature]
    done = phase.title + ("" if phase.by_default else " (when it is named)")
    return done, measured, before, phase.checked


def parameters(name: str) -> str:
    suite = registry.suite(name)
    every_phase = [phase.name for phase in suite.phases]
    rows = []
    for setting in (*suite.params, *plan.GENERAL.values()):
        phases = ""
        if 0 < len(setting.phases) < len(every_phase) / 2:
            phases = code(*setting.phases)
        rows.append((code(setting.name), default(setting), accepted(setting), setting.help, phases))
    return table(("Parameter", "Default", "Values", "Meaning", "Phases"), rows)


def default(setting: Setting) -> str:
    if setting.default != "":
        return code(shown(setting.default))
    return ""


def presets(name: str) -> str:
    suite = registry.suite(name)
    rows = []
    for preset_name, preset in suite.presets.items():
        params = "the defaults"
        if preset.params:
            params = code(units.params(preset.params))
        until = ""
        if preset.until:
            until = f", until {preset.until} or {longest_run(preset_name, preset):,.0f} s"
        rows.append(
            (
                code(preset_name),
                params,
                code(*preset.phases) or "all",
                f"{preset.samples}{until}",
                f"{preset.budget:g} s",
                f"{preset.timeout:g} s",
            )
        )
    return table(("Preset", "Parameters", "Phases", "Samples", "Budget of a phase", "Timeout of a trial"), rows)


def tables(name: str) -> str:
    """The suite's own table and charts, if it has any."""
    suite, parts = registry.suite(name), []
    if suite.layout is not None:
        columns = code(*(column.title for column in suite.layout.columns))
        legend = "".join(f"\n- {line}" for line in suite.layout.legend)
        parts.append(f"## Table\n\nIts own table has the columns {columns}.\n{legend}")
    if suite.charts:
        rows = [(code(chart.name), chart.title, chart.reading) for chart in suite.charts]
        parts.append(f"## Charts\n\n{table(('Chart', 'Title', 'Reading'), rows)}")
    return "\n\n".join(parts)


def declared(name: str) -> str:
    """Everything that a suite declares."""
    parts = [
        facts(name),
        f"## Phases\n\nPhases run in this order.\n\n{phases(name)}",
        f"## Parameters\n\n{parameters(name)}",
        f"## Presets\n\n{presets(name)}",
        tables(name),
    ]
    return "\n\n".join(part for part in parts if part)


BLOCKS: dict[str, Callable[..., str]] = {"suites": every, "suite": declared}
