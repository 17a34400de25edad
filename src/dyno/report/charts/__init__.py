"""The charts of a run, in the order in which a page shows them. A chart is a module here."""

from __future__ import annotations

from dyno.report.charts import clients, curve, latency, ratios, series, size, throughput
from dyno.report.charts.chart import Chart

CHARTS: tuple[Chart, ...] = (
    throughput.CHART,
    ratios.CHART,
    latency.CHART,
    series.CHART,
    clients.CHART,
    size.CHART,
    curve.CHART,
)
