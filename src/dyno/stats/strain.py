"""Reasons to distrust a number, found in what the machine suffered during its trials: see `dyno.host.strain`.

The worst trial counts. Nothing here may look at the machine that it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dyno.stats.machine import STEAL_PERCENT

STALL_PERCENT = 1.0
"""Of a trial's time."""
SWAPPED_BYTES = 1 << 20

STRAINS = {
    "steal": f"steal: the hypervisor gave over {STEAL_PERCENT:g} % of the CPU time of a trial to others",
    "swap": f"swap: over {SWAPPED_BYTES >> 20} MiB was swapped in or out during a trial",
    "throttled": "throttled: a CPU limit, or heat, held the processors back during a trial",
    "memory": f"memory: some process waited for memory for over {STALL_PERCENT:g} % of a trial",
}


def strained(trials: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Code, short and whole text of what the worst trial suffered; unknown is not suspected."""
    steal = _worst(trials, "steal_percent")
    if steal > STEAL_PERCENT:
        yield "steal", f"steal {steal:.0f} %", f"{steal:.1f} % of a trial's CPU time was stolen by the hypervisor"
    swapped = max(_worst(trials, "swapped_in_bytes"), _worst(trials, "swapped_out_bytes"))
    if swapped > SWAPPED_BYTES:
        yield "swap", "swap", f"{swapped / (1 << 20):,.0f} MiB was swapped in or out during a trial"
    throttled, hot = _worst_percent(trials, "throttled_ns"), _worst(trials, "thermal_throttles")
    if throttled > STALL_PERCENT:
        yield "throttled", "throttled", f"a CPU limit held a trial back for {throttled:.0f} % of its time"
    elif hot:
        yield "throttled", "throttled", f"heat held the processors back {hot:.0f} times during a trial"
    stalled = _worst_percent(trials, "memory_stall_ns")
    if stalled > STALL_PERCENT:
        yield "memory", "memory", f"processes waited for memory for {stalled:.0f} % of a trial"


def _worst(trials: Sequence[Mapping[str, Any]], name: str) -> float:
    return max((float(trial[name]) for trial in trials if trial.get(name) is not None), default=0.0)


def _worst_percent(trials: Sequence[Mapping[str, Any]], name: str) -> float:
    """In percent of the trial's time."""
    known = [trial for trial in trials if trial.get(name) is not None and trial.get("elapsed_ns")]
    return max((float(trial[name] / trial["elapsed_ns"] * 100) for trial in known), default=0.0)
