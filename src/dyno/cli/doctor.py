"""`dyno doctor`: facts about this machine, how quiet it is, and what would spoil a measurement."""

import json
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click

from dyno.cli.console import output
from dyno.cli.flag_values import work_option
from dyno.contracts.model import UsageError
from dyno.host import ceilings, directories, facts
from dyno.host.keep_awake import wakeups
from dyno.measure.loop import about, pick
from dyno.report.about.machine import render
from dyno.stats.machine import machine_doubts

PRESSURE_SECONDS, WAKEUP_SECONDS = 0.5, 0.3


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print facts and findings as JSON.")
@work_option()
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help=f"Measure the machine's ceilings for {ceilings.SECONDS:g} s, and keep them for this file system.",
)
def doctor_command(as_json: bool, root: Path | None, probes: bool) -> int:
    """Describe this machine, how quiet it is, and what would spoil a measurement.

    Exit status: 0, or 1 if something would make figures false.
    """
    from dyno.runner.work_directory import default_root, left_behind

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
        "loop": about(pick()),
        "left_behind": left_behind(root),
    }
    if probes:
        machine["ceilings"] = ceilings.probe(directory)
        try:
            ceilings.keep(directories.cache(), directory, machine["ceilings"])
        except OSError as error:
            raise UsageError(f"can't keep the ceilings: {directories.trouble(error)}") from None
    else:
        machine["ceilings"] = ceilings.known(directories.cache(), directory)
    findings = machine_doubts(machine)
    if as_json:
        click.echo(json.dumps({"facts": machine, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        render(machine, findings, output())
    return 1 if any(finding.severity == "bad" for finding in findings) else 0
