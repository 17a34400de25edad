"""`dyno crash`: kills engines and cuts their power, and checks that acknowledged writes survived."""

import time
from pathlib import Path
from typing import Any

import click

from dyno.cli import files, flag_values
from dyno.cli.console import output, print_note, progress
from dyno.cli.flag_values import PATH, Quantity, output_option, split, work_option
from dyno.contracts import quantities
from dyno.contracts.model import Tier, UsageError
from dyno.contracts.value_types import MOST
from dyno.crash import device, known_results, recorder, results
from dyno.crash.model import MODELS
from dyno.crash.rows import WRONG, CrashRequest, CrashRow, claims, rows
from dyno.host import directories
from dyno.host.process import nothing_left
from dyno.report.about.proofs import CRASHES
from dyno.runner import work_directory

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
    tiers = claims(split(engines), flags["tier"])
    keep = None if flags["keep"] is None else files.directory(str(flags["keep"])).resolve()
    same = {name: flags[name] for name in ("seed", "kills", "states", "model", "device", "within")}
    request = CrashRequest(**same, traced=not flags["untraced"], keep=keep)
    cuts_only_files = request.states > 0 and request.device is None
    if flags["tier"] == Tier.POWER.value and cuts_only_files and (why := recorder.unavailable()):
        raise UsageError(f"the power can't be cut here: {why}; --states 0 leaves the kills")
    if request.device is not None:
        if why := device.unavailable(request.device):
            raise UsageError(why)
        device.isolate()
    path = None if flags["path"] is None else files.run_file(flags["path"])
    if path is not None:
        results.create(path, {**same, "started": round(time.time())}, flags["overwrite"])
    finished: list[CrashRow] = []
    root = root or work_directory.default_root()
    with (
        work_directory.directory(root, print_note) as work,
        work_directory.directory(work_directory.fast_root(root), print_note) as fast,
        nothing_left(),
        progress().status("") as status,
    ):
        for row in rows(tiers, request, work.path, fast.path, status.update):
            finished.append(row)
            known_results.keep(directories.cache(), row.data())
            if path is not None:
                results.append(path, {"kind": "row", **row.data()})
    data = [row.data() for row in finished]
    if flags["as_markdown"]:
        click.echo(CRASHES.markdown(data), nl=False)
    else:
        CRASHES.render(data, output())
    return 1 if any(row.verdict in WRONG for row in finished) else 0
