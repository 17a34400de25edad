"""A soft IOC: serves process variables. Each counts its own changes, and has the time of the latest.

It is run as a script with two arguments, DATABASE and READY, and its addresses in the environment. It creates the
file READY when it begins to serve. See EPICS Base, "EPICS Process Database Concepts"; Diamond Light Source, softioc.
"""

import sys
import threading
from pathlib import Path

PERIODS = {1: "1 second", 2: ".5 second", 5: ".2 second", 10: ".1 second"}
"""Scan periods that every IOC supports, by changes per second."""
_RECORD = """record(calc, "{name}") {{
 field(SCAN, "{scan}") field(INPA, "{name}.VAL NPP NMS") field(CALC, "A+1") field(MDEL, "-1") field(ADEL, "-1")
}}
"""


def names(count: int) -> list[str]:
    return [f"LIVE:{number:06d}" for number in range(count)]


def database(names: list[str], hz: int) -> str:
    """Returns records that count up `hz` times a second, so that the next number shows a missed change."""
    return "".join(_RECORD.format(name=name, scan=PERIODS[hz]) for name in names)


def main() -> None:
    from softioc import asyncio_dispatcher, builder, softioc

    builder.LoadDatabase()
    softioc.dbLoadDatabase(sys.argv[1])
    softioc.iocInit(asyncio_dispatcher.AsyncioDispatcher())
    Path(sys.argv[2]).touch()
    threading.Event().wait()


if __name__ == "__main__":
    main()
