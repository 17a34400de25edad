"""A run for other programs: the stable JSON of `dyno show --json`, CSV with the same names, and Markdown tables.

Keys are documented in docs/reference/show-json.md and docs/reference/measured-quantities.md, which a test compares
with this module.
"""

import json
from dataclasses import asdict
from typing import Any

from dyno.contracts.cell import Cell
from dyno.fields import FIELDS, JSON
from dyno.report.export import data_tables
from dyno.report.tables.table import Row, groups
from dyno.report.tables.text import as_markdown as as_markdown
from dyno.results import Run
from dyno.stats.costs import Prices, costs
from dyno.stats.doubts import machine
from dyno.stats.summary import absences

SCHEMA = 1


def as_data(run: Run, prices: Prices | None = None) -> dict[str, Any]:
    """Returns the run as plain JSON; unknown values are None. With `prices`, it includes the costs of rows."""
    charges = None
    if prices is not None:
        charges = []
        for cost in costs(run, prices):
            amounts = {"million": cost.million, "month": cost.month, "currency": prices.currency}
            charges.append({**_place(cost.row.cell, cost.row.phase), **amounts})
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
        "absent": [{**_place(absence.cell, absence.phase), "why": absence.why} for absence in absences(run)],
        "costs": charges,
    }


def as_json(run: Run, prices: Prices | None = None) -> str:
    return json.dumps(as_data(run, prices), indent=2) + "\n"


def compact(value: Any) -> str:
    """Returns JSON without white space and without escapes for non-ASCII letters."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _place(cell: Cell, phase: str) -> dict[str, Any]:
    params = dict(cell.params)
    return {"suite": cell.suite, "engine": cell.asked, "phase": phase, "params": params, "tier": cell.tier_name}


def _cell(row: Row) -> dict[str, Any]:
    summary = row.summary
    throughput = summary.throughput
    shown = {each.key: summary.figures[each.name] for each in FIELDS if JSON in each.shown}
    loops = [attempt.loop for attempt in summary.attempts if attempt.loop is not None]
    return {
        "suite": summary.cell.suite,
        "engine": summary.cell.asked,
        "phase": summary.phase,
        "reported_by": summary.reported_by,
        "params": dict(summary.cell.params),
        "tier": summary.cell.tier_name,
        "floor": summary.cell.floor,
        "valid": summary.valid,
        "why": summary.why,
        "samples": len(summary.samples),
        **{name: shown[name] for name in ("operations", "items", "elapsed_ns", "wall_ns", "pause_cpu_ns")},
        "throughput": None if throughput is None else {**asdict(throughput), "unit": f"{summary.unit}/s"},
        "metric": summary.about.metric,
        "bytes": shown["bytes"],
        "bandwidth": None if summary.bandwidth is None else {**asdict(summary.bandwidth), "unit": "B/s"},
        "due": shown["due"],
        "offered_per_second": summary.offered_per_second,
        "served_per_second": summary.served_per_second,
        "cpu_ns_per_item": {"client": summary.client_cpu_ns, "server": summary.server_cpu_ns},
        **shown,
        "write_amplification": summary.write_amplification,
        "facts": summary.facts,
        "trial_facts": summary.trial_facts,
        # The measuring loop of the row's last trial.
        "loop": dict(loops[-1]) if loops else None,
        "version": summary.version,
        "settings": summary.settings,
        "caveats": [asdict(caveat) for caveat in summary.caveats],
        "doubts": [{"code": doubt.code, "text": doubt.text} for doubt in row.doubts],
    }


def as_csv(run: Run) -> str:
    """Returns CSV with a line for each cell and phase."""
    return data_tables.as_csv(data_tables.cells(run))
