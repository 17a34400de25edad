"""`dyno crash`: kills engines and cuts their power, and looks for what was acknowledged. Parses and delegates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from dyno.cli import completion, files
from dyno.cli.console import output, progress, tell
from dyno.cli.flag_values import NAME, PATH, Quantity, split
from dyno.contracts import quantities
from dyno.contracts.model import UsageError
from dyno.contracts.value_types import MOST
from dyno.crash import device, known_results, results
from dyno.crash.model import MODELS
from dyno.crash.rows import WRONG, CrashRequest, CrashRow, claims, rows
from dyno.host import directories
from dyno.host.process import nothing_left
from dyno.report.about import crashes
from dyno.runner import work_directory


@click.command(name="crash")
@click.argument("engines", nargs=-1, metavar="[ENGINE...]", shell_complete=completion.ENGINE)
@click.option("--tier", metavar="TIER", help="This tier alone; else each that promises anything.")
@click.option("--kills", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="SIGKILLs of each.")
@click.option(
    "--states",
    type=click.IntRange(0, 1_000_000),
    default=200,
    show_default=True,
    help="States after a cut of power, of each at tier power.",
)
@click.option(
    "--model", type=click.Choice(MODELS), default=MODELS[0], show_default=True, help="What a file system may lose."
)
@click.option("--device", type=click.Choice(list(device.SYSTEMS)), help="Cut a disk with it too, as root.")
@click.option(
    "--within",
    type=Quantity(quantities.seconds, 1),
    metavar="TIME",
    help="Of slow engines fewer kills and states, so that all takes no longer than about this.",
)
@click.option("--seed", type=click.IntRange(0, MOST), default=1, show_default=True, help="Of all that is drawn.")
@click.option("--untraced", is_flag=True, help="Leave out the trace of system calls.")
@click.option("-o", "--output", "path", type=NAME, metavar="FILE", help="Where the result goes as JSON.")
@click.option("--overwrite", is_flag=True, help="Replace FILE where it is a result of this command.")
@click.option("--keep", type=PATH, metavar="DIR", help="Where a store of each fault is kept.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--work", "root", type=PATH, metavar="DIR", help="Where data live meanwhile.")
def command(engines: tuple[str, ...], root: Path | None, **given: Any) -> int:
    """Kill engines, cut their power, and look for what they had acknowledged.

    Each store is killed by SIGKILL at random moments; then its changes to its files are recorded, and it is opened in
    the states that a cut of power may leave. Exit status: 0, or 1 if a tier was broken or an engine failed.
    """
    wanted = claims(split(engines), given["tier"])
    keep = None if given["keep"] is None else files.directory(str(given["keep"])).resolve()
    asked = CrashRequest(
        given["kills"],
        given["states"],
        given["model"],
        given["seed"],
        not given["untraced"],
        keep,
        given["device"],
        given["within"],
    )
    if asked.device is not None:
        if why := device.unavailable(asked.device):
            raise UsageError(why)
        device.isolate()
    path = None if given["path"] is None else files.run_file(given["path"])
    if path is not None:
        started = {"seed": asked.seed, "kills": asked.kills, "states": asked.states, "model": asked.model}
        started |= {"device": asked.device, "within": asked.within}
        results.create(path, {**started, "started": round(time.time())}, given["overwrite"])
    found: list[CrashRow] = []
    root = root or work_directory.default_root()
    with (
        work_directory.directory(root, tell) as place,
        work_directory.directory(work_directory.fast_root(root), tell) as fast,
        nothing_left(),
        progress().status("") as status,
    ):
        for row in rows(wanted, asked, place.path, fast.path, status.update):
            found.append(row)
            known_results.keep(directories.cache(), row.data())
            if path is not None:
                results.append(path, {"kind": "row", **row.data()})
    told = [row.data() for row in found]
    if given["as_markdown"]:
        click.echo(crashes.markdown(told), nl=False)
    else:
        crashes.render(told, output())
    return 1 if any(row.verdict in WRONG for row in found) else 0
