"""pyperf's JSON, version 1.0: a benchmark for each row, a run with one value for each trial.

A value is a trial's seconds for each item: elapsed time by items, so that `pyperf compare_to` compares what
throughput is made of.
"""

from __future__ import annotations

import json
from typing import Any

from dyno.report.formats.names import rows
from dyno.results import Run
from dyno.stats.summary import CellSummary


def text(run: Run) -> str:
    """Rows with a number."""
    found = [_benchmark(name, row) for name, row in rows(run) if any(sample.per_second for sample in row.samples)]
    return json.dumps({"version": "1.0", "metadata": _about(run), "benchmarks": found}, indent=2) + "\n"


def _about(run: Run) -> dict[str, Any]:
    host = run.header.get("host")
    cpu = host.get("cpu") if isinstance(host, dict) else None
    model = cpu.get("model") if isinstance(cpu, dict) else None
    known = {"cpu_model_name": model, "description": f"dyno, suite {run.plan['suite']}", "unit": "second"}
    return {name: value for name, value in known.items() if value}


def _benchmark(name: str, row: CellSummary) -> dict[str, Any]:
    began = {attempt.block: attempt.started for attempt in row.attempts}
    return {
        "metadata": {"name": name, "loops": 1, "inner_loops": 1},
        "runs": [
            {"metadata": {"date": _local(began[block])}, "values": [1 / rate]}
            for block, sample in zip(row.blocks, row.samples, strict=True)
            if (rate := sample.per_second)
        ],
    }


def _local(started: str) -> str:
    """Without a zone: pyperf reads none."""
    return started.partition("+")[0].replace("T", " ")
