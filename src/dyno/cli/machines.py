"""The machines of a scheduler of Dask, as `dyno doctor --load-from` shows them."""

import json

from msgspec import structs

from dyno.cli.console import output
from dyno.contracts.model import Refused, UsageError
from dyno.contracts.value_types import JsonObject
from dyno.machines import tasks
from dyno.machines.scheduler import MachineLost, Scheduler, check_address
from dyno.measure.messages import ClientsFailed, MachineDescribed, decode_answer
from dyno.report.tables.sections import Column, print_table

COLUMNS = ("machine", "cores", "loop", "round trip", "clock ahead by", "Dyno", "Python")


def show_machines(address: str, plain: bool, as_json: bool) -> int:
    """Prints the machines, and returns exit status 0. Raises UsageError."""
    check_address(address, plain, "--load-from")
    try:
        machines = describe(address)
    except (Refused, MachineLost, RuntimeError) as error:
        raise UsageError(f"--load-from: {error}") from None
    if as_json:
        print(json.dumps({"machines": machines}, indent=2))
        return 0
    rows = [
        (
            each["host"],
            f"{each['cores']:g}",
            f"{each['loop']['operation_ns']:.0f} ns by the {each['loop']['name']} loop",
            f"{each['round_trip_ns'] / 1e6:.2f} ms",
            f"{each['offset_ns'] / 1e9:+,.4f} s ± {each['uncertainty_ns'] / 1e6:.2f} ms",
            each["dyno"],
            each["python"],
        )
        for each in machines
    ]
    print_table([Column(title, left=True) for title in COLUMNS], rows, output())
    return 0


def describe(address: str) -> list[JsonObject]:
    """Returns what each machine of the scheduler tells of itself. `round_trip_ns` is the shortest of calls through
    Dask. Raises Refused, MachineLost and RuntimeError."""
    with Scheduler(address) as scheduler:
        answers = scheduler.call_on_each(tasks.describe, dict.fromkeys(scheduler.machines, ()))
        machines = []
        for machine, answer in answers.items():
            described = decode_answer(answer)
            if not isinstance(described, MachineDescribed):
                raise RuntimeError(f"{machine.host}: {described.why if isinstance(described, ClientsFailed) else ''}")
            offset = scheduler.offset(machine)
            times = {
                "round_trip_ns": 2 * offset.uncertainty_ns,
                "offset_ns": offset.ns,
                "uncertainty_ns": offset.uncertainty_ns,
            }
            machines.append({"host": machine.host, **structs.asdict(described), **times})
    return machines
