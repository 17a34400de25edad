"""`dyno capacity`: finds the highest rate at which limits hold."""

import click

from dyno.cli import flag_values
from dyno.cli.flag_values import output_option, work_option
from dyno.cli.run import CONFIRMED, OVERWRITE, RESUME, request, run_command, run_flags
from dyno.cli.show import PRICES
from dyno.contracts.model import UsageError
from dyno.options import SEARCHED

HELP = {
    "duration": "Least duration of a probe. Default: 10; longer where few operations a second are due.",
    "warmup": "Uncounted work before each probe, at its rate. Default: 5.",
    "within": "Maximum time of all searches, shared alike; probes are shortened to fit. Default: 1800 for each row.",
    "arrivals": "Arrivals: poisson (the default) or uniform, which flatters a queue.",
}


@click.command(name="capacity")
@click.argument("what", metavar="SUITE|PLAN.toml", shell_complete=flag_values.SUITE)
@run_flags("engines", "limit", "confirm")
@run_flags(but=["engines", "limit", "confirm", *SEARCHED], **HELP)
@output_option("Run file to write. Default: SUITE-DATE-TIME.json.", "RUN")
@RESUME
@OVERWRITE
@CONFIRMED
@click.option("--prices", "table", type=flag_values.PATH, metavar="FILE", help=PRICES)
@click.option("--dry-run", "dry", is_flag=True, help="Print the plan and its measuring time; run nothing.")
@work_option()
def capacity_command(what: str, **given: object) -> int:
    """Find the highest rate at which limits hold, of each engine.

    \b
    dyno capacity records -e sqlite,redis --phases mixed --clients 8 --limit 'p99<5ms'
    dyno capacity records -e postgresql --phases get --limit 'p99.9<20ms' --limit 'errors<0.1%' -o c.json
    """
    given |= dict.fromkeys((*SEARCHED, "on", "most"))
    if not request(what, given).limit:
        raise UsageError("capacity needs a limit: --limit 'p99<5ms', or limit = [\"p99<5ms\"] in the plan file")
    assert run_command.callback is not None
    return int(run_command.callback(what, whole=False, **given))
