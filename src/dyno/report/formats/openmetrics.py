"""OpenMetrics 1.0: gauges, and latencies as summaries, in seconds and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dyno.report.tables.table import named_rows
from dyno.results import Run
from dyno.stats.summary import CellSummary

QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
GAUGES = {
    "dyno_throughput": "Items per second: the median over trials.",
    "dyno_throughput_low": "Lower end of its 95 % interval.",
    "dyno_throughput_high": "Upper end of its 95 % interval.",
    "dyno_client_cpu_seconds": "CPU time of the client for each item.",
    "dyno_server_cpu_seconds": "CPU time of the server for each item.",
    "dyno_disk_bytes": "Size of the store on disk.",
    "dyno_valid": "1 if the row has a number, else 0.",
}
LATENCY, RESPONSE = "dyno_latency_seconds", "dyno_response_seconds"
SUMMARIES = {
    LATENCY: "Latency of one operation.",
    RESPONSE: "Response time of one operation, from when it was due.",
}


def text(run: Run) -> str:
    """All rows, also those without a number."""
    rows = [(_labels(row), row) for _, row in named_rows(run)]
    lines: list[str] = []
    for family, help_ in GAUGES.items():
        lines += _head(family, "gauge", help_)
        for labels, row in rows:
            if (value := _gauges(row)[family]) is not None:
                lines.append(f"{family}{_text(labels)} {float(value)!r}")
    for family, help_ in SUMMARIES.items():
        lines += _head(family, "summary", help_)
        for labels, row in rows:
            times = row.latency_ns if family == LATENCY else row.response_ns
            for name, quantile in QUANTILES.items():
                if (ns := times.get(name)) is not None:
                    lines.append(f"{family}{_text({**labels, 'quantile': quantile})} {ns / 1e9!r}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _head(family: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# TYPE {family} {kind}"
    unit = family.rpartition("_")[2]
    if unit in ("seconds", "bytes"):
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {help_}"


def _labels(row: CellSummary) -> dict[str, str]:
    cell = row.cell
    labels = {"suite": cell.suite, "engine": cell.asked, "phase": row.phase, "tier": cell.tier_name or ""}
    labels["unit"] = row.unit
    if row.reported_by:
        labels["reported_by"] = row.reported_by
    # A label's name has no other characters.
    params = {re.sub(r"[^a-zA-Z0-9_]", "_", f"param_{name}"): str(value) for name, value in cell.params.items()}
    return {**labels, **params}


def _gauges(row: CellSummary) -> dict[str, float | None]:
    rate = row.throughput
    cpu = (None if ns is None else ns / 1e9 for ns in (row.client_cpu_ns, row.server_cpu_ns))
    rates = (None, None, None) if rate is None else (rate.median, rate.low, rate.high)
    return dict(zip(GAUGES, (*rates, *cpu, row.bytes_on_disk, int(row.valid)), strict=True))


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
