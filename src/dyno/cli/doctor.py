"""`dyno doctor`: facts about this machine, how quiet it is, and what would spoil a measurement."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from msgspec import convert
from rich.console import Console
from rich.text import Text

from dyno.cli.console import output
from dyno.cli.flag_values import work_option
from dyno.contracts.model import UsageError
from dyno.contracts.value_types import JsonMapping
from dyno.host import ceilings, directories, facts, noise, perf, strace
from dyno.host.keep_awake import wakeups
from dyno.measure.loop import describe_loop, pick
from dyno.report.tables import units
from dyno.report.tables.sections import Column, print_sentence, print_table
from dyno.results.header import Host, drop_unknown_facts
from dyno.stats.machine import OTHERS_BUSY_PERCENT, Finding, leftovers, machine_doubts, slow_loop, worst_first
from dyno.stats.verdict import approximate_samples, forecast_samples

PRESSURE_SECONDS, WAKEUP_SECONDS = 0.5, 0.3
FORECAST_DIFFERENCES = {"10_percent": 0.1, "3_percent": 0.03}
"""Differences for which the number of samples is forecast, by their name in the JSON."""


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print facts and findings as JSON.")
@work_option()
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help=f"Measure the machine's ceilings for {ceilings.SECONDS:g} s, and keep them for this file system.",
)
@click.option("--load-from", metavar="SCHEDULER", help="Describe the machines of this scheduler of Dask instead.")
@click.option("--plain-tcp", "plain", is_flag=True, help="Accept a scheduler without TLS.")
def doctor_command(as_json: bool, root: Path | None, probes: bool, load_from: str | None, plain: bool) -> int:
    """Describe this machine, how quiet it is, and what would spoil a measurement.

    Exit status: 0, or 1 if something would make figures false.
    """
    from dyno.runner.work_directory import default_root, left_behind

    if load_from is not None:
        from dyno.cli.machines import show_machines

        return show_machines(load_from, plain, as_json)
    root = root if root is not None else default_root()
    directory = facts.nearest_existing(root)
    with suppress(OSError):
        # A dangling link does not exist, but is in the way.
        directory = root if root.is_symlink() else directory
    if not directory.is_dir():
        raise UsageError(f"--work: expected a directory, got {directory}")
    try:
        # Permissions don't tell: root may write everywhere, but not in /proc.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"can't write in {directory} ({why}): name another directory by --work") from None
    # First: collecting facts flushes files, which would count as other processes' pressure.
    pressure = facts.pressure(PRESSURE_SECONDS)
    machine = {
        **facts.facts(directory),
        "pressure": pressure,
        "wakeups": wakeups(WAKEUP_SECONDS),
        "loop": describe_loop(pick()),
        "left_behind": left_behind(root),
        "profiles": {
            "trouble": perf.find_trouble(),
            "kernel": not perf.hides_kernel(),
            "system_calls": strace.find_trouble(),
        },
    }
    if probes:
        machine["ceilings"] = ceilings.probe(directory)
        try:
            ceilings.keep(directories.cache(), directory, machine["ceilings"])
        except OSError as error:
            raise UsageError(f"can't keep the ceilings: {directories.trouble(error)}") from None
    else:
        machine["ceilings"] = ceilings.load_cached(directories.cache(), directory)
    doubts = machine_doubts(convert(drop_unknown_facts({"host": machine})["host"], Host))
    findings = worst_first([*doubts, *leftovers(**machine["left_behind"]), *slow_loop(machine["loop"])])
    machine["noise"] = _forecast(noise.measure_spread())
    if as_json:
        click.echo(json.dumps({"facts": machine, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        render(machine, findings, output())
    if any(finding.severity == "bad" for finding in findings):
        return 1
    return 0


def _forecast(spread: float | None) -> dict[str, object] | None:
    """Returns the spread of a core's speed, with the number of samples that differences take at this noise."""
    if spread is None:
        return None
    samples = {name: forecast_samples(spread, share) for name, share in FORECAST_DIFFERENCES.items()}
    return {"spread": spread, "samples": samples}


STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}
FIELD = re.compile(r"\{([\w.]+)(?:([:?])([^}]*))?\}")
"""A field of a template. It consists of the path of a fact, and either a colon and a format, or a question mark and
the texts for yes and no."""
ROWS = {
    "system": ("{system.os}", "{system.kernel}", "{system.libc}"),
    "python": ("{python.implementation} {python.version}",),
    "processor": (
        *("{cpu.model}", "{system.architecture}", "{cpu.mhz} MHz", "at most {cpu.max_mhz} MHz"),
        *("governor {cpu.governor}", "{cpu.turbo?turbo on|turbo off}", "{cpu.virtualised?virtual machine|}"),
    ),
    "cores": ("{cpu.logical_cores}", "", "limited to the time of {cpu.quota_cores}"),
    "memory": (
        *("{memory.total_bytes:size}", "{memory.available_bytes:size} available"),
        *("limited to {memory.cgroup_limit_bytes:size}", "swap {memory.swap_total_bytes:size}"),
        "{memory.swap_used_bytes:size} of it used",
    ),
    "work on": (
        *("{filesystem.mount_point}", "{filesystem.type}", "{filesystem.device}"),
        *("{filesystem.ram_backed?in memory|}", "{filesystem.network?over the network|}"),
        *("{filesystem.rotational?says it rotates|does not rotate}", "cache {filesystem.write_cache}"),
    ),
    "mounted": (),
    "space": ("{filesystem.free_bytes:size} free of {filesystem.total_bytes:size}",),
    "flush": ("{filesystem.fsync_ns:us} for 4 kB",),
    "clock": ("{clock.source}", "{clock.cost_ns} ns a reading"),
    "wake-up": (),
    "ceilings": (
        *("{ceilings.flushes_per_second:,.0f} flushes/s", "memory {ceilings.memory_bytes_per_second:GB}/s"),
        "{ceilings.core_bytes_per_second:GB}/s by one core",
        *("{ceilings.core_events_per_second} prime searches/s on one core", "probed {ceilings.probed}"),
    ),
    "loop": ("{loop.name}", "by the {loop.clock}", "{loop.operation_ns:.0f} ns an operation"),
    "noise": (),
    "profiles": (),
    "load": ("{load.minutes_1:.2f}", "{load.minutes_5:.2f}", "{load.minutes_15:.2f}"),
    "others": ("{pressure.others_busy_percent} % of the CPU time now", "{steal_percent} % stolen since boot"),
}
"""Templates of each row. A template is left out if one of its facts is unknown. Rows without templates are
computed."""


def fact(facts: Mapping[str, object], path: str) -> Any:
    """Returns the fact at a dotted path, or None if a step is missing."""
    value: object = facts
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        else:
            value = None
    return value


def render(facts: Mapping[str, object], findings: Sequence[Finding], console: Console) -> None:
    """Prints the facts of `dyno.host.facts.facts`, the findings, and a verdict of one line."""
    rows = [(name, ", ".join(filter(None, words)) or "unknown") for name, words in _rows(facts)]
    columns = [Column("", left=True, style="bold"), Column("", left=True, folds=True)]
    print_table(columns, rows, console, marks={"unknown": "dim"})
    console.print()
    for finding in findings:
        line = Text(f"{finding.severity:<6}", style=STYLES[finding.severity]).append(finding.text, style="none")
        print_sentence(line, console)
        if finding.remedy:
            console.print(Text(f"      {finding.remedy}", style="dim"), soft_wrap=True)
    spoilers = sum(finding.severity != "ok" for finding in findings)
    things = f"{spoilers} thing{'s' if spoilers > 1 else ''} would spoil a measurement"
    print_sentence(Text(things if spoilers else "quiet: ready to measure", style="bold"), console)


def _text(facts: Mapping[str, object], template: str) -> str:
    """Fills a template; empty if a fact is unknown. Formats are Python's, and in addition `size` for bytes, `us` for
    ns in microseconds and `GB` for bytes in gigabytes."""

    def write(field: re.Match[str]) -> str:
        value = fact(facts, field[1])
        kind = field[2]
        spec = field[3] or ""
        if kind == "?":
            return spec.split("|")[not value]
        if spec == "size":
            return units.size(int(value))
        if spec == "us":
            return f"{value / 1000:,.1f} µs"
        if spec == "GB":
            return f"{value / 1e9:.1f} GB"
        return format(value, spec)

    if any(fact(facts, field[1]) is None for field in FIELD.finditer(template)):
        return ""
    return FIELD.sub(write, template)


def _rows(facts: JsonMapping) -> Iterator[tuple[str, list[str]]]:
    """Yields the name of each row with its facts as texts; the text of an unknown fact is empty."""
    for name, templates in ROWS.items():
        texts = [_text(facts, template) for template in templates]
        if name == "cores" and fact(facts, "cpu.available_cores") != fact(facts, "cpu.logical_cores"):
            texts[1] = _text(facts, "{cpu.available_cores} for this process")
        elif name == "memory" and not fact(facts, "memory.swap_total_bytes"):
            if fact(facts, "memory.swap_total_bytes") == 0:
                texts[3:] = ["no swap"]
            else:
                texts[3:] = []
        elif name == "mounted":
            texts = [str(option) for option in fact(facts, "filesystem.options") or ()]
        elif name == "wake-up":
            texts = _wakeups(facts)
        elif name == "noise":
            texts = _noise(facts)
        elif name == "profiles":
            texts = [_describe_profiles(facts), fact(facts, "profiles.system_calls") or "system calls by strace"]
        elif name == "ceilings" and not facts.get("ceilings"):
            texts = ["not probed: dyno doctor --probe"]
        elif name == "others":
            stalls = facts.get("psi") or {}
            texts += [_text(facts, f"{what} stalls {{psi.{what}.some_avg10_percent}} %") for what in stalls]
        yield name, texts


def _describe_profiles(facts: Mapping[str, object]) -> str:
    """Returns whether `dyno run --profile` can sample the stacks of processes."""
    if trouble := fact(facts, "profiles.trouble"):
        return str(trouble)
    if not fact(facts, "profiles.kernel"):
        return "by perf, without the kernel: sysctl kernel.perf_event_paranoid=1"
    return "by perf"


def _noise(facts: Mapping[str, object]) -> list[str]:
    spread = fact(facts, "noise.spread")
    if spread is None:
        return []
    texts = [f"a core's speed spreads by {100 * spread:.1f} %"]
    for name, share in FORECAST_DIFFERENCES.items():
        number = approximate_samples(fact(facts, f"noise.samples.{name}"))
        texts.append(f"a difference of {share * 100:.0f} % takes {number} samples")
    return texts


def _wakeups(facts: Mapping[str, object]) -> list[str]:
    cost = _text(facts, "{wakeups.cost_ns:us} of a sleeping core")
    if cost and (fact(facts, "pressure.others_busy_percent") or 0) > OTHERS_BUSY_PERCENT:
        cost += " (more on an idle machine)"
    trips = []
    for where, cores in (("apart", "a core each"), ("free", "on any")):
        times = [
            _text(facts, f"{{wakeups.{where}.{state}p50_ns:us}} (p99 {{wakeups.{where}.{state}p99_ns:us}}) {name}")
            for state, name in (("", "asleep"), ("awake_", "kept awake"))
        ]
        if any(times):
            trips.append(f"round trip of two processes {cores} {' and '.join(filter(None, times))}")
    return [cost, *trips]
