"""A run in the formats of other tools: for CI servers, dashboards and plotters. A format is a module here.

docs/ci.md says what each holds. Rows of null engines, which are Dyno's own cost, are in none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dyno.report.formats import action, bmf, hlog, junit, openmetrics, pyperf
from dyno.results import Run


class Format(NamedTuple):
    text: Callable[[Run], str]
    what: str


FORMATS = {
    "junit": Format(junit.text, "JUnit XML: a test case for each row, which fails where there is no number"),
    "bmf": Format(bmf.text, "Bencher Metric Format"),
    "github-action-benchmark": Format(action.text, "its JSON for the tool customBiggerIsBetter: throughput"),
    "openmetrics": Format(openmetrics.text, "OpenMetrics, for Prometheus and what reads it"),
    "hlog": Format(hlog.text, "HdrHistogram's interval log: every latency, a tag for each row"),
    "pyperf": Format(pyperf.text, "pyperf's JSON: time for each item, a value for each trial"),
}
