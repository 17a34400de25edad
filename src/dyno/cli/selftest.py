"""`dyno selftest` and `dyno conform`: prove on this machine that the measuring, durability tiers or the answers of an
engine are right."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dyno import registry
from dyno.cli import flag_values
from dyno.cli.console import output, print_note, progress
from dyno.cli.flag_values import split, work_option
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import UsageError
from dyno.report.about.proofs import TIERS
from dyno.runner import work_directory
from dyno.runner.rows import check_tier, split_engines, tier_named
from dyno.selftest import chosen, conformance, made
from dyno.selftest.conformance import FAIL, GAP, PASS, SKIPPED, ConformanceResult
from dyno.selftest.flushes import WRONG, claims, proofs

NAME_WIDTH = 9
SIGNS = {True: ("pass", "green"), False: ("FAIL", "bold red"), None: ("none", "yellow")}
STYLES = {PASS: "green", GAP: "yellow", FAIL: "bold red", SKIPPED: "yellow"}
FAILED, NOTHING = 1, 3


@click.command(name="selftest")
@click.option("--only", metavar="NAME[,NAME...]", help="Run only these checks.")
@click.option("--tiers", is_flag=True, help="Prove durability tiers instead, by the system calls of commits.")
@click.option("-e", "--engine", "engines", multiple=True, metavar="NAME[:OPT=VALUE+...]", help="With --tiers: these.")
@click.option("--tier", metavar="TIER", help="With --tiers: only this tier.")
@click.option("--json", "as_json", is_flag=True, help="Print verdicts and figures as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="With --tiers: print a Markdown table.")
@work_option()
def selftest_command(tiers: bool, root: Path | None, **flags: Any) -> int:
    """Prove on this machine that the measuring is right, in about a minute.

    Measures known faults and known costs, which must show in the figures. With --tiers: checks that acknowledged
    writes are flushed as each engine's tiers promise. Exit status: 0, or 1 if a check failed, a tier is broken or an
    engine crashed.
    """
    for name, flag in {"engines": "-e", "tier": "--tier", "as_markdown": "--markdown"}.items():
        if flags[name] and not tiers:
            raise UsageError(f"{flag} needs --tiers")
    if flags["only"] and tiers:
        raise UsageError("--only and --tiers exclude each other")
    if flags["as_json"] and flags["as_markdown"]:
        raise UsageError("--json and --markdown exclude each other")
    with work_directory.directory(root or work_directory.default_root(), print_note) as work:
        return _tiers(work.path, flags) if tiers else _checks(work.path, flags["only"], flags["as_json"])


def _checks(work: Path, only: str | None, as_json: bool) -> int:
    checks, verdicts, console = chosen(split([only or ""])), [], output()
    with progress().status("") as status:
        results = made(checks, work)
        for number, check in enumerate(checks, 1):
            status.update(f"{number} of {len(checks)}, {check.name}: {check.guards}")
            verdicts.append(next(results)[1])
            if not as_json:
                sign, name = SIGNS[verdicts[-1].passed], (f"{check.name:<{NAME_WIDTH}}", "bold")
                console.print(Text.assemble(sign, "  ", name, check.guards))
                indent = (0, 0, 0, len(sign[0]) + 2 + NAME_WIDTH)
                console.print(Padding(Text(verdicts[-1].text, "dim"), indent, expand=False))
    if as_json:
        data = [{"name": c.name, "guards": c.guards, **asdict(v)} for c, v in zip(checks, verdicts, strict=True)]
        click.echo(json.dumps({"checks": data}, indent=2))
    else:
        count = Counter(verdict.passed for verdict in verdicts)
        rest = f", {count[None]} can't be run on this machine" if count[None] else ""
        text = f"{count[True]} passed, {count[False]} failed{rest}"
        console.print(Text(text, "bold red" if count[False] else "bold"))
    return 1 if any(verdict.passed is False for verdict in verdicts) else 0


def _tiers(work: Path, flags: Mapping[str, Any]) -> int:
    tiers, results = claims(split(flags["engines"]), flags["tier"]), []
    with progress().status("") as status:
        remaining = proofs(tiers, work)
        for number, claim in enumerate(tiers, 1):
            status.update(f"{number} of {len(tiers)}: {claim.engine}, tier {claim.tier.value}")
            results.append(next(remaining))
    data = [proof.data() for proof in results]
    if flags["as_json"]:
        click.echo(json.dumps({"tiers": data}, indent=2))
    elif flags["as_markdown"]:
        click.echo(TIERS.markdown(data), nl=False)
    else:
        TIERS.render(data, output())
    return 1 if any(proof.verdict in WRONG for proof in results) else 0


@click.command(name="conform")
@click.argument("engine", metavar="ENGINE", shell_complete=flag_values.ENGINE)
@click.option(
    "--tier",
    metavar="TIER",
    shell_complete=flag_values.TIER,
    help="Durability tier. Default: the engine's own.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome of each check as JSON.")
@work_option()
def conform_command(engine: str, tier: str | None, as_json: bool, root: Path | None) -> int:
    """Check the answers of ENGINE with the conformance suites of all its ports.

    ENGINE is a name, or NAME:OPTION=VALUE+OPTION=VALUE. A check passes, is a declared gap (unsupported, upstream or
    todo, with the reason), or fails. Exit status: 0, or 1 if a check failed, or 3 if none could be run.
    """
    ((_, row),) = split_engines([engine])
    spec = registry.engine(row.name)
    # With the options of all ports: each port uses its own.
    of_ports = {option.name: option for port in spec.ports.values() for option in port.options}
    options = replace(spec, options=(*spec.options, *of_ports.values())).resolve(row.options)
    if spec.floor:
        raise UsageError(f"engine {spec.name} is a null engine: it does nothing, so there are no answers to check")
    checked_tier = row.tier or (spec.default_tier if tier is None else tier_named(tier))
    if lacking := spec.lacking(options):
        raise UsageError(f"engine {spec.name} {lacking}")
    check_tier(spec, checked_tier, options)
    with (
        work_directory.directory(root or work_directory.default_root(), print_note) as work,
        progress().status(f"checking {spec.name}"),
    ):
        results = list(conformance.results(spec, row.options, checked_tier, work.path))
    if as_json:
        checks = [asdict(result) for result in results]
        shown_tier = checked_tier and checked_tier.value
        click.echo(json.dumps({"engine": spec.name, "tier": shown_tier, "checks": checks}, indent=2))
    else:
        _print(spec, results, output())
    outcomes = Counter(result.outcome for result in results)
    if outcomes[FAIL]:
        return FAILED
    return 0 if outcomes[PASS] else NOTHING


def _print(spec: EngineSpec, results: list[ConformanceResult], console: Console) -> None:
    width = max((len(result.check) for result in results), default=0)
    for (port, suite), group in groupby(results, lambda result: (result.port, result.suite)):
        console.print(Text(f"port {port}, suite {suite}" if suite else f"port {port}", "bold"))
        last = ""
        for result in group:
            outcome = Text(f"{result.outcome:<7}", STYLES[result.outcome])
            name = f"{result.check:<{width}}" if result.guards else result.check
            console.print(Text.assemble("  ", outcome, "  ", name, "  " if result.guards else "", result.guards))
            # The checks after a crash were not run, all for one reason.
            if result.reason and result.reason != last:
                reason = f"{result.kind}: {result.reason}" if result.kind else result.reason
                console.print(Padding(Text(reason, "dim"), (0, 0, 0, 13 + width), expand=False))
            last = result.reason
    outcomes = Counter(result.outcome for result in results)
    gaps = "1 gap" if outcomes[GAP] == 1 else f"{outcomes[GAP]} gaps"
    counts = [f"{outcomes[PASS]} passed", gaps, f"{outcomes[FAIL]} failed"]
    if outcomes[SKIPPED]:
        counts.append(f"{outcomes[SKIPPED]} not run")
    console.print(Text(f"{spec.name}: {', '.join(counts)}", "bold red" if outcomes[FAIL] else "bold"))
