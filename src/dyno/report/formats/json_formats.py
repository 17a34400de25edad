"""JSON for other tools: Bencher, github-action-benchmark and pyperf."""

from __future__ import annotations

import json
from typing import Any

from dyno.report.tables import units
from dyno.report.tables.table import named_rows
from dyno.results import Run
from dyno.stats.metric import METRICS, estimated
from dyno.stats.summary import CellSummary

BENCHER_MEASURES = {
    "throughput": "throughput",
    "latency": "p50",
    "latency-p99": "p99",
    "response-p99": "response-p99",
}
"""Our metric of each measure."""


def bencher(run: Run) -> str:
    """Bencher Metric Format: rows with a number, their measures with intervals. Throughput is in items per second,
    latency in ns, CPU time in ns per item."""
    return json.dumps({name: _measures(row) for name, row in named_rows(run) if row.valid}, indent=2) + "\n"


def _measures(row: CellSummary) -> dict[str, Any]:
    measures: dict[str, dict[str, float]] = {}
    for measure, metric in BENCHER_MEASURES.items():
        if (of := estimated(row, METRICS[metric])) is not None:
            values = {"value": of.median, "lower_value": of.low, "upper_value": of.high}
            measures[measure] = {name: value for name, value in values.items() if value is not None}
    if row.client_cpu_ns is not None:
        measures["cpu-time"] = {"value": row.client_cpu_ns}
    if row.server_cpu_ns is not None:
        measures["server-cpu-time"] = {"value": row.server_cpu_ns}
    return measures


def github_action(run: Run) -> str:
    """For its tool `customBiggerIsBetter`: throughput of rows with a number, with the interval."""
    entries = []
    for name, row in named_rows(run):
        if (rate := row.throughput) is not None:
            entry = {"name": name, "unit": f"{row.unit}/s", "value": rate.median}
            if rate.low is not None and rate.high is not None:
                entry["range"] = f"{rate.low:.6g} – {rate.high:.6g}"
            p50, p99 = (units.duration(row.latency_ns[at]) for at in ("p50", "p99"))
            entries.append({**entry, "extra": f"{len(row.samples)} trials; latency p50 {p50}, p99 {p99}"})
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def pyperf(run: Run) -> str:
    """pyperf's JSON, version 1.0: a benchmark for each row with a number, a run for each trial. Its one value is
    seconds per item (elapsed time divided by items), so that `pyperf compare_to` compares throughput."""
    host = run.header.get("host")
    cpu = host.get("cpu") if isinstance(host, dict) else None
    model = cpu.get("model") if isinstance(cpu, dict) else None
    metadata = {"cpu_model_name": model, "description": f"dyno, suite {run.plan['suite']}", "unit": "second"}
    benchmarks = [_benchmark(name, row) for name, row in named_rows(run) if any(s.per_second for s in row.samples)]
    document = {
        "version": "1.0",
        "metadata": {name: value for name, value in metadata.items() if value},
        "benchmarks": benchmarks,
    }
    return json.dumps(document, indent=2) + "\n"


def _benchmark(name: str, row: CellSummary) -> dict[str, Any]:
    # pyperf reads dates without a time zone.
    dates = {a.block: a.started.partition("+")[0].replace("T", " ") for a in row.attempts}
    return {
        "metadata": {"name": name, "loops": 1, "inner_loops": 1},
        "runs": [
            {"metadata": {"date": dates[block]}, "values": [1 / rate]}
            for block, sample in zip(row.blocks, row.samples, strict=True)
            if (rate := sample.per_second)
        ],
    }
