"""Bencher Metric Format: JSON of benchmarks, their measures, and of each a value and its interval.

Throughput is in items a second, and latencies are in ns, which are the units of Bencher's own two measures; CPU time
is in ns for each item.
"""

from __future__ import annotations

import json
from typing import Any

from dyno.report.formats.names import rows
from dyno.results import Run
from dyno.stats.estimate import Estimate
from dyno.stats.metric import METRICS, estimated
from dyno.stats.summary import CellSummary

MEASURES = {"throughput": "throughput", "latency": "p50", "latency-p99": "p99", "response-p99": "response-p99"}


def text(run: Run) -> str:
    """Rows with a number."""
    return json.dumps({name: _measures(row) for name, row in rows(run) if row.valid}, indent=2) + "\n"


def _measures(row: CellSummary) -> dict[str, Any]:
    found = {measure: estimated(row, METRICS[metric]) for measure, metric in MEASURES.items()}
    told = {measure: _value(estimate) for measure, estimate in found.items() if estimate is not None}
    if row.client_cpu_ns is not None:
        told["cpu-time"] = {"value": row.client_cpu_ns}
    if row.server_cpu_ns is not None:
        told["server-cpu-time"] = {"value": row.server_cpu_ns}
    return told


def _value(found: Estimate) -> dict[str, float]:
    known = {"value": found.median, "lower_value": found.low, "upper_value": found.high}
    return {name: value for name, value in known.items() if value is not None}
