"""HdrHistogram's interval log, version 1.2: for each trial and phase a line with all latencies, tagged by row.

A line begins when its trial did: a run file does not say when in it the phase began. Values are in ns; the column of
the largest is in ms, as is the habit of such logs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import datetime

from dyno.contracts.histogram import percentiles
from dyno.report.formats.names import rows
from dyno.results import Run, damaged

LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def text(run: Run) -> str:
    """Rows whose operations were timed one by one."""
    found = []
    for name, row in rows(run):
        began = {attempt.block: attempt.started for attempt in row.attempts}
        for block, sample in zip(row.blocks, row.samples, strict=True):
            if sample.histogram is not None:
                start = _moment(run, began[block])
                most = percentiles([sample.histogram])["max"] or 0
                encoded = b64encode(sample.histogram).decode()
                line = f"{start:.3f},{sample.elapsed_ns / 1e9:.3f},{most / 1e6:.3f},{encoded}"
                found.append((start, f"Tag={_tag(name)},{line}"))
    # In the order of time, as readers suppose.
    found.sort(key=lambda one: one[0])
    head = ["#[Logged with Dyno]", "#[Histogram log format version 1.2]"]
    if found:
        head.append(f"#[StartTime: {found[0][0]:.3f} (seconds since epoch), {_first(run)}]")
    return "\n".join([*head, LEGEND, *(line for _, line in found)]) + "\n"


def _moment(run: Run, text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise damaged(run.path, error) from None


def _first(run: Run) -> str:
    return min(attempt.started for attempt in run.attempts)


def _tag(name: str) -> str:
    """Which has neither commas nor blanks."""
    return re.sub(r"[\s,]", "_", name)
