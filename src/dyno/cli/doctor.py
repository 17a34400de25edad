"""`dyno doctor`: this machine, how quiet it is, what would spoil a measurement. Parses and delegates."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.model import UsageError
from dyno.host import ceilings, directories, facts
from dyno.host.wakeups import wakeups
from dyno.measure.loop import about, pick
from dyno.report.about.machine import render
from dyno.stats.machine import machine_doubts

WATCH_SECONDS, WOKEN_SECONDS = 0.5, 0.3


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print facts and findings as JSON.")
@click.option(
    "--work",
    type=PATH,
    metavar="DIR",
    help="Where the engines' data will live (default: where `dyno run` puts it).",
)
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help=f"Measure what the machine does at most, for {ceilings.SECONDS:g} s, and keep it for this file system.",
)
def command(as_json: bool, work: Path | None, probes: bool) -> int:
    """This machine, how quiet it is, and what would spoil a measurement.

    Exit status: 0, or 1 if something would make figures false.
    """
    # Not at the top: who only asks for help doesn't need the rest of the running machinery.
    from dyno.runner.work_directory import default_root, left_behind

    root = work if work is not None else default_root()
    place = _writable(root)
    # Watched first: the facts cost a flush or two, which would count as other people's work.
    watched = facts.pressure(WATCH_SECONDS)
    found = facts.facts(place) | {"pressure": watched, "wakeups": wakeups(WOKEN_SECONDS)}
    found |= {"loop": about(pick()), "left_behind": left_behind(root)}
    found |= {"ceilings": _probed(place) if probes else ceilings.known(directories.cache(), place)}
    findings = machine_doubts(found)
    if as_json:
        click.echo(json.dumps({"facts": found, "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        render(found, findings, output())
    return 1 if any(finding.severity == "bad" for finding in findings) else 0


def _probed(place: Path) -> dict[str, Any]:
    """Measured now, and kept. Raises UsageError where it can't be."""
    measured = ceilings.probe(place)
    try:
        ceilings.keep(directories.cache(), place, measured)
    except OSError as error:
        raise UsageError(f"can't keep what was measured: {directories.trouble(error)}") from None
    return measured


def _writable(work: Path) -> Path:
    """`work` or its nearest existing parent, where data could be written. Raises UsageError."""
    place = facts.nearest_existing(work)
    with suppress(OSError):
        # A link that leads nowhere does not exist, and is in the way.
        place = work if work.is_symlink() else place
    if not place.is_dir():
        raise UsageError(f"{place} is no directory; --work wants one")
    try:
        # Tried, not asked: by its permissions root may write everywhere, and still not in /proc.
        with tempfile.TemporaryFile(dir=place):
            return place
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"can't write in {place} ({why}); --work wants a directory to write in") from None
