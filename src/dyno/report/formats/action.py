"""JSON of github-action-benchmark, for its tool `customBiggerIsBetter`: throughput, with its interval."""

from __future__ import annotations

import json

from dyno.report.formats.names import rows
from dyno.report.tables import units
from dyno.results import Run


def text(run: Run) -> str:
    """Rows with a number."""
    found = []
    for name, row in rows(run):
        if (rate := row.throughput) is not None:
            about = {"name": name, "unit": f"{row.unit}/s", "value": rate.median}
            if rate.low is not None and rate.high is not None:
                about["range"] = f"{rate.low:.6g} – {rate.high:.6g}"
            p50, p99 = (units.duration(row.latency_ns[at]) for at in ("p50", "p99"))
            found.append({**about, "extra": f"{len(row.samples)} trials; latency p50 {p50}, p99 {p99}"})
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"
