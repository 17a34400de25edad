"""`dyno selftest`, `dyno conform` and `dyno crash`: prove on this machine that the measuring, durability tiers or the
answers of an engine are right, and that acknowledged writes survive crashes."""

import json
import time
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
from dyno.cli import files, flag_values
from dyno.cli.console import output, print_note, progress
from dyno.cli.flag_values import PATH, Quantity, output_option, split_at_commas, work_option
from dyno.contracts import quantities
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, UsageError
from dyno.contracts.value_types import MOST
from dyno.crash import device, known_results, recorder, rows
from dyno.crash import results as crash_results
from dyno.crash.model import MODELS
from dyno.host import directories
from dyno.host.process import nothing_left
from dyno.report.outcomes import CRASHES, TIERS
from dyno.runner import work_directory
from dyno.runner.engine_row import check_tier
from dyno.runner.rows import split_versions, tier_named
from dyno.selftest import conformance, run_checks, select_checks
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
        if tiers:
            return _tiers(work.path, flags)
        return _checks(work.path, flags["only"], flags["as_json"])


def _checks(work: Path, only: str | None, as_json: bool) -> int:
    checks = select_checks(split_at_commas([only or ""]))
    verdicts = []
    console = output()
    with progress().status("") as status:
        results = run_checks(checks, work)
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
        if count[None]:
            rest = f", {count[None]} can't be run on this machine"
        else:
            rest = ""
        text = f"{count[True]} passed, {count[False]} failed{rest}"
        console.print(Text(text, "bold red" if count[False] else "bold"))
    if any(verdict.passed is False for verdict in verdicts):
        return 1
    return 0


def _tiers(work: Path, flags: Mapping[str, Any]) -> int:
    tiers, results = claims(split_at_commas(flags["engines"]), flags["tier"]), []
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
    if any(proof.verdict in WRONG for proof in results):
        return 1
    return 0


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

    ENGINE is NAME, NAME@VERSION or NAME:OPTION=VALUE+OPTION=VALUE. A check passes, is a declared gap (unsupported,
    upstream or todo, with the reason), or fails. Exit status: 0, or 1 if a check failed, or 3 if none could be run.
    """
    named = [row for _, row in split_versions([engine])]
    if len(named) != 1:
        raise UsageError(f"one version is checked at a time: {', '.join(row.asked for row in named)}")
    (row,) = named
    spec = registry.engine(row.name)
    # With the options of all ports: each port uses its own.
    of_ports = {option.name: option for port in spec.ports for option in spec.reduce_to_port(port).options}
    options = replace(spec, options=tuple(of_ports.values())).resolve(row.options)
    if spec.floor:
        raise UsageError(f"engine {spec.name} is a null engine: it does nothing, so there are no answers to check")
    checked_tier = row.tier or (spec.default_tier if tier is None else tier_named(tier))
    if lacking := spec.explain_unavailability(options):
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
    if outcomes[PASS]:
        return 0
    return NOTHING


def _print(spec: EngineSpec, results: list[ConformanceResult], console: Console) -> None:
    width = max((len(result.check) for result in results), default=0)
    for (port, suite), group in groupby(results, lambda result: (result.port, result.suite)):
        console.print(Text(f"port {port}, suite {suite}" if suite else f"port {port}", "bold"))
        last = ""
        for result in group:
            outcome = Text(f"{result.outcome:<7}", STYLES[result.outcome])
            if result.guards:
                name = f"{result.check:<{width}}"
            else:
                name = result.check
            console.print(Text.assemble("  ", outcome, "  ", name, "  " if result.guards else "", result.guards))
            # The checks after a crash were not run, all for one reason.
            if result.reason and result.reason != last:
                if result.kind:
                    reason = f"{result.kind}: {result.reason}"
                else:
                    reason = result.reason
                console.print(Padding(Text(reason, "dim"), (0, 0, 0, 13 + width), expand=False))
            last = result.reason
    outcomes = Counter(result.outcome for result in results)
    if outcomes[GAP] == 1:
        gaps = "1 gap"
    else:
        gaps = f"{outcomes[GAP]} gaps"
    counts = [f"{outcomes[PASS]} passed", gaps, f"{outcomes[FAIL]} failed"]
    if outcomes[SKIPPED]:
        counts.append(f"{outcomes[SKIPPED]} not run")
    console.print(Text(f"{spec.name}: {', '.join(counts)}", "bold red" if outcomes[FAIL] else "bold"))


COUNT = click.IntRange(0, 1_000_000)


@click.command(name="crash")
@click.argument("engines", nargs=-1, metavar="[ENGINE...]", shell_complete=flag_values.ENGINE)
@click.option("--tier", metavar="TIER", help="Test only this tier. Default: each tier but volatile.")
@click.option("--kills", type=COUNT, default=20, show_default=True, help="Number of SIGKILLs per engine and tier.")
@click.option(
    "--states", type=COUNT, default=200, show_default=True, help="Number of states after a power cut (tier power)."
)
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default=MODELS[0],
    show_default=True,
    help="File system whose losses are simulated.",
)
@click.option("--device", type=click.Choice(list(device.SYSTEMS)), help="Also cut a disk of this file system (root).")
@click.option(
    "--within",
    type=Quantity(quantities.seconds, 1),
    metavar="TIME",
    help="Fewer kills and states of slow engines, so that the command takes about this long.",
)
@click.option("--seed", type=click.IntRange(0, MOST), default=1, show_default=True, help="Seed of random choices.")
@click.option("--untraced", is_flag=True, help="Leave out the trace of system calls.")
@output_option("JSON file to write the results to.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it is a result of this command.")
@click.option("--keep", type=PATH, metavar="DIR", help="Directory to keep a store of each fault in.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
@work_option()
def crash_command(engines: tuple[str, ...], root: Path | None, **flags: Any) -> int:
    """Kill engines, cut their power, and check that acknowledged writes survived.

    Each store is killed by SIGKILL at random moments. Then the changes to its files are recorded, and it is opened in
    the states that a power cut may leave. Exit status: 0, or 1 if a tier was broken or an engine failed.
    """
    tiers = rows.claims(split_at_commas(engines), flags["tier"])
    if flags["keep"] is None:
        keep = None
    else:
        keep = files.directory(str(flags["keep"])).resolve()
    same = {name: flags[name] for name in ("seed", "kills", "states", "model", "device", "within")}
    request = rows.CrashRequest(**same, traced=not flags["untraced"], keep=keep)
    cuts_only_files = request.states > 0 and request.device is None
    if flags["tier"] == Tier.POWER.value and cuts_only_files and (why := recorder.explain_unavailability()):
        raise UsageError(f"the power can't be cut here: {why}; --states 0 leaves the kills")
    if request.device is not None:
        if why := device.explain_unavailability(request.device):
            raise UsageError(why)
        device.isolate()
    if flags["path"] is None:
        path = None
    else:
        path = files.run_file(flags["path"])
    if path is not None:
        crash_results.create(path, {**same, "started": round(time.time())}, flags["overwrite"])
    finished: list[rows.CrashRow] = []
    root = root or work_directory.default_root()
    with (
        work_directory.directory(root, print_note) as work,
        work_directory.directory(work_directory.fast_root(root), print_note) as fast,
        nothing_left(),
        progress().status("") as status,
    ):
        for row in rows.rows(tiers, request, work.path, fast.path, status.update):
            finished.append(row)
            known_results.keep(directories.cache(), row.data())
            if path is not None:
                crash_results.append(path, {"kind": "row", **row.data()})
    data = [row.data() for row in finished]
    if flags["as_markdown"]:
        click.echo(CRASHES.markdown(data), nl=False)
    else:
        CRASHES.render(data, output())
    if any(row.verdict in rows.WRONG for row in finished):
        return 1
    return 0
