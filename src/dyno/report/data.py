"""The run for programs: the stable JSON of `dyno show --json`, CSV with the same names, and Markdown tables.

docs/show-json.md documents every key; a test holds the two together.
"""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import Any

from dyno.report import units
from dyno.report.table import Group, Row, absent, groups, legend, varying
from dyno.results import Run
from dyno.stats.doubts import machine
from dyno.stats.summary import Absence, CellSummary, absences

SCHEMA = 1
LATENCIES = ("p50", "p90", "p95", "p99", "p999", "max")


def as_data(run: Run) -> dict[str, Any]:
    """A dict that is plain JSON. Unknown is None."""
    return {
        "schema": SCHEMA,
        "suite": run.plan["suite"],
        "complete": run.complete,
        "created": run.header.get("created"),
        "dyno": run.header.get("dyno"),
        "plan": dict(run.plan),
        "host": run.header.get("host"),
        "machine_doubts": [asdict(finding) for finding in machine(run)],
        "cells": [_cell(row) for group in groups(run) for row in group.rows],
        "absent": [_absent(found) for found in absences(run)],
    }


def _cell(row: Row) -> dict[str, Any]:
    summary = row.summary
    found = summary.throughput
    return {
        "suite": summary.cell.suite,
        "engine": summary.cell.asked,
        "phase": summary.phase,
        "params": dict(summary.cell.params),
        "tier": summary.cell.tier.value,
        "floor": summary.cell.floor,
        "valid": summary.valid,
        "why": summary.why,
        "samples": len(summary.samples),
        "operations": summary.operations,
        "items": summary.items,
        "elapsed_ns": summary.elapsed_ns,
        "throughput": None if found is None else {**asdict(found), "unit": f"{summary.unit}/s"},
        "latency_ns": summary.latency_ns,
        "latency_by_kind_ns": summary.latency_by_kind_ns,
        "response_ns": summary.response_ns,
        "late_ns": summary.late_ns,
        "series": [list(sample.series) for sample in summary.samples],
        "temperature": summary.temperature,
        "resident_percent": summary.resident_percent,
        "client": summary.client,
        "server": summary.server,
        "bytes_on_disk": summary.bytes_on_disk,
        "write_amplification": summary.write_amplification,
        "loop": _loop(summary),
        "version": summary.version,
        "settings": summary.settings,
        "caveats": [asdict(caveat) for caveat in summary.caveats],
        "doubts": [{"code": doubt.code, "text": doubt.text} for doubt in row.doubts],
    }


def _absent(found: Absence) -> dict[str, Any]:
    cell = found.cell
    return {
        "suite": cell.suite,
        "engine": cell.asked,
        "phase": found.phase,
        "params": dict(cell.params),
        "tier": cell.tier.value,
        "why": found.why,
    }


def _loop(summary: CellSummary) -> dict[str, Any] | None:
    """What measured the row's last trial."""
    known = [attempt.loop for attempt in summary.attempts if attempt.loop is not None]
    return dict(known[-1]) if known else None


def as_csv(run: Run) -> str:
    """A line for each cell and phase; nested keys joined by an underscore, lists by a semicolon."""
    lines = []
    for cell in as_data(run)["cells"]:
        throughput = cell["throughput"] or dict.fromkeys(("median", "low", "high", "unit"))
        lines.append(
            {
                **{name: cell[name] for name in ("suite", "engine", "phase", "tier")},
                **{f"param_{name}": value for name, value in cell["params"].items()},
                **{name: cell[name] for name in ("valid", "why", "samples", "operations", "items", "elapsed_ns")},
                **{f"throughput_{name}": value for name, value in throughput.items()},
                **{f"latency_{name}_ns": cell["latency_ns"][name] for name in LATENCIES},
                **{f"response_{name}_ns": cell["response_ns"][name] for name in LATENCIES},
                **{name: cell[name] for name in ("temperature", "bytes_on_disk", "write_amplification")},
                "caveats": ";".join(caveat["code"] for caveat in cell["caveats"]),
                "doubts": ";".join(doubt["code"] for doubt in cell["doubts"]),
            }
        )
    out = io.StringIO()
    writer = csv.DictWriter(out, lines[0].keys() if lines else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def as_markdown(run: Run) -> str:
    """A table for each phase and tier, and the remarks under them."""
    found, changing = groups(run), varying(run)
    parts = [_markdown_group(group, changing) for group in found]
    remarks = [f"- {line}" for line in (*legend(found), *(f"not measured: {line}" for line in absent(run)))]
    return "\n\n".join([*parts, "\n".join(remarks)] if remarks else parts) + "\n"


def _markdown_group(group: Group, changing: list[str]) -> str:
    unit = group.rows[0].summary.unit
    opened = any(row.summary.response_ns["p50"] is not None for row in group.rows)
    heads = ["engine", *changing, f"{unit}/s", "95 %", "p50", "p99", "on disk", "remarks"]
    if opened:
        heads[-2:-2] = ["resp p50", "resp p99"]
    lines = [f"**{group.phase}**, tier {group.tier.value}", "", _line(heads), _line(["---"] * len(heads))]
    for row in group.rows:
        summary, rate = row.summary, row.summary.throughput
        figures = (
            [units.rate(rate.median), units.interval(rate.low, rate.high)]
            if rate is not None
            else [(summary.why or "not measured").split(":", 1)[0], ""]
        )
        times = (summary.latency_ns, summary.response_ns) if opened else (summary.latency_ns,)
        latencies = [units.duration(found[name]) for found in times for name in ("p50", "p99")]
        values = [str(summary.cell.params[name]) for name in changing]
        remarks = ", ".join(row.remarks())
        lines.append(_line([row.name, *values, *figures, *latencies, units.size(summary.bytes_on_disk), remarks]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
