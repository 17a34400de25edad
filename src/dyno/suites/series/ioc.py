"""A soft IOC: a control system's server of process variables, in a process of its own. Each of them counts its own
changes, and has the time of each.

Started by itself with two words, DATABASE and READY, and with the addresses that it serves at in its environment. It
makes the file READY when it serves. EPICS Base, "EPICS Process Database Concepts"; Diamond Light Source, softioc.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

PERIODS = {1: "1 second", 2: ".5 second", 5: ".2 second", 10: ".1 second"}
"""By changes a second, the scans that every IOC has."""
_RECORD = """record(calc, "{name}") {{
 field(SCAN, "{scan}") field(INPA, "{name}.VAL NPP NMS") field(CALC, "A+1") field(MDEL, "-1") field(ADEL, "-1")
}}
"""


def names(count: int) -> list[str]:
    return [f"LIVE:{number:06d}" for number in range(count)]


def database(names: list[str], hz: int) -> str:
    """Records that count, so many times a second each: a client that has missed one sees it by the next."""
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
