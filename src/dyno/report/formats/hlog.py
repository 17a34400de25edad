"""HdrHistogram's interval log, version 1.2: a line for each trial and phase with all latencies, tagged by row.

A line starts with its trial: a run file has no start times of phases. Values are in ns; the column of the maximum is
in ms, as usual in such logs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import datetime

from dyno.contracts.histogram import percentiles
from dyno.report.tables.table import named_rows
from dyno.results import Run, damaged

LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def text(run: Run) -> str:
    """Rows whose operations were timed one by one."""
    lines = []
    for name, row in named_rows(run):
        # A tag can't contain commas or blanks.
        tag = re.sub(r"[\s,]", "_", name)
        starts = {attempt.block: attempt.started for attempt in row.attempts}
        for block, sample in zip(row.blocks, row.samples, strict=True):
            if sample.histogram is not None:
                start = _timestamp(run, starts[block])
                most = percentiles([sample.histogram])["max"] or 0
                encoded = b64encode(sample.histogram).decode()
                figures = f"{start:.3f},{sample.elapsed_ns / 1e9:.3f},{most / 1e6:.3f},{encoded}"
                lines.append((start, f"Tag={tag},{figures}"))
    # Readers expect the order of time.
    lines.sort(key=lambda line: line[0])
    head = ["#[Logged with Dyno]", "#[Histogram log format version 1.2]"]
    if lines:
        first = min(attempt.started for attempt in run.attempts)
        head.append(f"#[StartTime: {lines[0][0]:.3f} (seconds since epoch), {first}]")
    return "\n".join([*head, LEGEND, *(line for _, line in lines)]) + "\n"


def _timestamp(run: Run, text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise damaged(run.path, error) from None
