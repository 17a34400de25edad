"""Breaks Dyno on purpose in each process (command or worker) that has this directory on its PYTHONPATH.

DYNO_SPOILT lists functions of this module, separated by commas. DYNO_CONSTANTS is a JSON object of constants and
their values for the command: {"dyno.selftest.trials.BLOCKS": 3}.

Python imports this module before all modules of Dyno, so that Dyno imports the replacements made here. A spoiler must
import only the module that it spoils.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from time import monotonic_ns
from typing import Any

STEP_NS = 10
OFFSET_NS = 1_000_000
BOOKKEEPING_NS = 3_000
TAIL_NS, FAR_NS = 300_000, 500_000


# -- clock ----------------------------------------------------------------------------------------------------


def _clocks(spoil: Callable[[int], int]) -> None:
    """Applies `spoil` to the clock of every loop."""
    loop = _module("dyno.measure.loop")
    for each in filter(None, (loop, loop.native())):
        each.now = lambda now=each.now: spoil(now())


def offset_clock() -> None:
    """Shifts the clock of each process by a different offset."""
    _clocks(lambda ns: ns + os.getpid() * OFFSET_NS)


def fast_clock() -> None:
    """Makes clocks 1 % too fast."""
    _clocks(lambda ns: ns * 101 // 100)


# -- latency --------------------------------------------------------------------------------------------------


def _recorded(spoil: Callable[[Any], Any]) -> None:
    """Applies `spoil` to recorded latencies."""
    import numpy as np

    recorder = _module("dyno.contracts.histogram").Recorder
    add = recorder.add
    recorder.add = lambda self, spans: add(self, spoil(np.asarray(spans)))


def tail_is_dropped() -> None:
    _recorded(lambda spans: spans[spans < TAIL_NS])


def tail_is_halved() -> None:
    import numpy as np

    _recorded(lambda spans: np.where(spans < TAIL_NS, spans, spans // 2))


def far_tail_is_shortened() -> None:
    """Shortens only latencies that affect the p999, and keeps their order."""
    import numpy as np

    _recorded(lambda spans: np.where(spans < FAR_NS, spans, (spans + FAR_NS) // 2))


def nothing_is_recorded() -> None:
    _recorded(lambda spans: spans[:0])


def bookkeeping_is_in_spans() -> None:

    from dyno.measure import loop

    resolved = loop.resolve_stamps

    def late(stamps: Any) -> Any:
        starts, ends = resolved(stamps)
        return starts, ends + BOOKKEEPING_NS

    loop.resolve_stamps = late


# -- cold -----------------------------------------------------------------------------------------------------


def nothing_is_evicted() -> None:
    from dyno.host import pagecache

    pagecache.evict = lambda files, *, drop=None: "files"


def a_little_stays() -> None:
    """Leaves 3 % of each file in the page cache."""
    from dyno.host import pagecache

    evict = pagecache.evict

    def leaving(files: Any, *, drop: Any = None) -> str:
        how = evict(files, drop=drop)
        for file in files:
            with file.open("rb", buffering=0) as reading:
                # Without this, readahead would leave more.
                os.posix_fadvise(reading.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                reading.read(file.stat().st_size * 3 // 100)
        return how

    pagecache.evict = leaving


def nothing_is_resident() -> None:
    from dyno.host import pagecache

    residency = pagecache.residency
    pagecache.residency = lambda files: replace(residency(files), resident_bytes=0)


def _used(**changed: int) -> None:
    """Replaces figures of a process's own resource usage."""
    from dyno.host import usage

    own = usage.measure_own
    usage.measure_own = lambda: replace(own(), **changed)


def nothing_is_read() -> None:
    _used(read_bytes=0)


# -- client ---------------------------------------------------------------------------------------------------


def cpu_time_is_lost() -> None:
    _used(user_ns=0, system_ns=0)


def every_client_is_doubted() -> None:
    _module("dyno.stats.doubts").CLIENT_PERCENT = -1.0


# -- awake ----------------------------------------------------------------------------------------------------


def usual_priority() -> None:
    """Runs the processes that keep cores awake at the usual priority, so that each takes half of its core."""
    path = _module("pathlib").Path
    write = path.write_text
    path.write_text = lambda self, *text: 0 if self.name == "autogroup" else write(self, *text)
    os.sched_setscheduler = lambda *_: None


def keepers_end() -> None:
    """Ends the processes that keep cores awake at once."""
    os.wait = lambda: (0, 0)


# -- stall ----------------------------------------------------------------------------------------------------


def omission_is_coordinated() -> None:
    """Counts response times from the start of an operation instead of from when it was due."""
    tally = _module("dyno.measure.tally").Tally
    add = tally.add_open
    tally.add_open = lambda self, starts, ends, due, *rest: add(self, starts, ends, starts, *rest)


# -- slower ---------------------------------------------------------------------------------------------------


def steady() -> None:
    """Breaks nothing, but makes figures independent of the machine's load: time passes only by the engine's work and
    by readings of the clock.
    """
    synthetic = _module("dyno.engines.synthetic")
    loop = _module("dyno.measure.loop")
    at = 10**6

    def now() -> int:
        nonlocal at
        at += 1
        return at

    def checksum(data: bytes, start: int) -> int:
        nonlocal at
        at += len(data) // synthetic.STEPS * STEP_NS
        return start

    loop.now = now
    loop.native = lambda: None
    synthetic.crc_hqx = checksum
    # Prevents the run from reporting a clock mismatch.
    loop.clocks = lambda loop: (monotonic_ns(),)


def slower_is_ignored() -> None:
    synthetic = _module("dyno.engines.synthetic")
    begin = synthetic.Operations.__init__

    def ignoring(self: Any, engine: Any, work: int) -> None:
        begin(self, engine, work)
        self._work = bytes(work * synthetic.STEPS)

    synthetic.Operations.__init__ = ignoring


def _module(name: str) -> Any:
    """Imports a module untyped, since types forbid replacing its functions and constants."""
    return import_module(name)


def _apply() -> None:
    command = sys.orig_argv[1:3] == ["-m", "dyno"]
    modules = {"dyno.runner.worker_pool", "dyno.host.keep_awake"}
    if not command and not modules & set(sys.orig_argv):
        return
    for name in filter(None, os.environ.get("DYNO_SPOILT", "").split(",")):
        globals()[name]()
    for path, value in json.loads(os.environ.get("DYNO_CONSTANTS", "{}")).items() if command else ():
        module, _, name = path.rpartition(".")
        # Raises AttributeError for a misspelt constant.
        getattr(import_module(module), name)
        setattr(import_module(module), name, value)


_apply()
