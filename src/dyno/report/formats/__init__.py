"""A run in the formats of other tools: CI servers, dashboards and plotters. docs/ci.md describes them.

They leave out null engines, which measure Dyno's own cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dyno.report.formats import hlog, json_formats, junit, openmetrics
from dyno.results import Run


class Format(NamedTuple):
    text: Callable[[Run], str]
    what: str


FORMATS = {
    "junit": Format(junit.text, "JUnit XML: a test case for each row; it fails without a number"),
    "bmf": Format(json_formats.bencher, "Bencher Metric Format"),
    "github-action-benchmark": Format(
        json_formats.github_action, "its JSON for the tool customBiggerIsBetter: throughput"
    ),
    "openmetrics": Format(openmetrics.text, "OpenMetrics, for Prometheus and compatible tools"),
    "hlog": Format(hlog.text, "HdrHistogram's interval log: every latency, a tag for each row"),
    "pyperf": Format(json_formats.pyperf, "pyperf's JSON: time for each item, a value for each trial"),
}
