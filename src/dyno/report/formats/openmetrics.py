"""OpenMetrics 1.0: gauges, and latencies as a summary. Units are seconds and bytes, as that format wants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dyno.report.formats.names import rows
from dyno.results import Run
from dyno.stats.summary import CellSummary

QUANTILES = {"p50": "0.5", "p90": "0.9", "p95": "0.95", "p99": "0.99", "p999": "0.999", "max": "1"}
GAUGES = {
    "dyno_throughput": "Items done in a second: the median over trials.",
    "dyno_throughput_low": "The lower end of its 95 % interval.",
    "dyno_throughput_high": "The upper end of its 95 % interval.",
    "dyno_client_cpu_seconds": "CPU time of the client for each item.",
    "dyno_server_cpu_seconds": "CPU time of the server for each item.",
    "dyno_disk_bytes": "What the store took on the disk.",
    "dyno_valid": "1 where the row has a number, and 0 where not.",
}
SUMMARIES = {
    "dyno_latency_seconds": "Latency of one operation.",
    "dyno_response_seconds": "The same from when the operation was due.",
}


def text(run: Run) -> str:
    """All rows; of one without a number that it has none."""
    found = [(_labels(row), row) for _, row in rows(run)]
    lines: list[str] = []
    for family, help_ in GAUGES.items():
        lines += _head(family, "gauge", help_)
        for labels, row in found:
            if (value := _gauges(row)[family]) is not None:
                lines.append(f"{family}{_text(labels)} {float(value)!r}")
    for family, help_ in SUMMARIES.items():
        lines += _head(family, "summary", help_)
        for labels, row in found:
            lines += [f"{family}{_text(each)} {value!r}" for each, value in _quantiles(family, labels, row)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _head(family: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# TYPE {family} {kind}"
    unit = family.rpartition("_")[2]
    if unit in ("seconds", "bytes"):
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {help_}"


def _labels(row: CellSummary) -> dict[str, str]:
    cell = row.cell
    known = {"suite": cell.suite, "engine": cell.asked, "phase": row.phase, "tier": cell.tier_name or ""}
    known["unit"] = row.unit
    if row.reported_by:
        known["reported_by"] = row.reported_by
    return {**known, **{_label(f"param_{name}"): str(value) for name, value in cell.params.items()}}


def _label(name: str) -> str:
    """A label's name, which has no other characters."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _gauges(row: CellSummary) -> dict[str, Any]:
    rate = row.throughput
    cpu = (None if ns is None else ns / 1e9 for ns in (row.client_cpu_ns, row.server_cpu_ns))
    rates = (None, None, None) if rate is None else (rate.median, rate.low, rate.high)
    return dict(zip(GAUGES, (*rates, *cpu, row.bytes_on_disk, int(row.valid)), strict=True))


def _quantiles(family: str, labels: Mapping[str, str], row: CellSummary) -> Iterator[tuple[dict[str, str], float]]:
    found = row.latency_ns if family == "dyno_latency_seconds" else row.response_ns
    for name, quantile in QUANTILES.items():
        if (ns := found.get(name)) is not None:
            yield {**labels, "quantile": quantile}, ns / 1e9


def _text(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
