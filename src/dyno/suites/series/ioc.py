"""A soft IOC: a process that serves process variables. Each variable counts its changes, with the time of each.

Run as a script with two arguments, DATABASE and READY, and its addresses in the environment. It creates the file
READY once it serves. EPICS Base, "EPICS Process Database Concepts"; Diamond Light Source, softioc.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

PERIODS = {1: "1 second", 2: ".5 second", 5: ".2 second", 10: ".1 second"}
"""The scan periods that every IOC has, by changes per second."""
_RECORD = """record(calc, "{name}") {{
 field(SCAN, "{scan}") field(INPA, "{name}.VAL NPP NMS") field(CALC, "A+1") field(MDEL, "-1") field(ADEL, "-1")
}}
"""


def names(count: int) -> list[str]:
    return [f"LIVE:{number:06d}" for number in range(count)]


def database(names: list[str], hz: int) -> str:
    """Records that count up `hz` times a second. By the next number a client notices that it missed one."""
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
