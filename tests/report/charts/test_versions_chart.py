"""Tests the chart of versions: its order, its marks of changes, and the panels that it shares."""

from __future__ import annotations

from pathlib import Path

import pytest
import vl_convert
from madeup import of_rates, reads, versions, written

from dyno import results
from dyno.contracts.model import UsageError
from dyno.report.charts import plot, vega
from dyno.report.charts.chart import panels
from dyno.report.charts.plot import Choice
from dyno.report.charts.versions import VERSIONS
from dyno.report.page import build
from dyno.results import Run

QUIET = (1.0, 1.01, 0.99, 1.002, 0.998, 1.001)


def around(rate: float) -> list[float]:
    return [1e6 * rate * value for value in QUIET]


@pytest.fixture(scope="module")
def run() -> Run:
    """Run of five versions of an engine, where 1.11 is slower, one of which only one of its two rows has, and of two
    versions of another engine."""
    rates = {"1.9": around(1), "1.12": around(1), "1.8": around(1), "1.10": around(1), "1.11": around(0.7)}
    return of_rates(
        *versions({version: of for version, of in rates.items() if version != "1.10"}, "lmdb"),
        *versions(dict(reversed(rates.items())), "lmdb", readahead="no"),
        *versions({"3.45": around(0.5), "3.46": around(0.5)}, "sqlite"),
        phases=["read"],
    )


def test_records_are_in_release_order_of_each_engine(run: Run) -> None:
    records = VERSIONS.records(run)
    order = list(dict.fromkeys(record["version"] for record in records))
    assert order == [*(f"lmdb 1.{minor}" for minor in range(8, 13)), "sqlite 3.45", "sqlite 3.46"]
    assert {record["series"] for record in records} == {"lmdb", "lmdb:readahead=no", "sqlite"}
    assert all(record.keys() >= {column.key for column in VERSIONS.columns} for record in records)
    (panel,) = panels(VERSIONS, records)
    assert len(panel.records) == 11


def test_changes_are_marked_at_their_versions(run: Run) -> None:
    marked = {(r["series"], r["version"]): r["changed"] for r in VERSIONS.records(run) if r["changed"]}
    assert marked == {
        (series, f"lmdb 1.{minor}"): kind
        for series in ("lmdb", "lmdb:readahead=no")
        for minor, kind in ((11, "slower"), (12, "faster"))
    }
    texts = [each["text"] for each in VERSIONS.says(run)]
    assert texts[0].startswith("lmdb: 1.11 is slower than 1.9 by at least 2")
    assert texts[2] == "sqlite: no change from 3.45 to 3.46 larger than 0.01 %."


def test_drawing_has_versions_changes_and_sentences(run: Run) -> None:
    svg = plot.draw_chart(run, VERSIONS, Choice()).svg()
    assert "lmdb 1.10" in svg and "3.46" in svg
    assert all(vega.VERDICTS[kind][0] in svg for kind in ("slower", "faster"))
    assert "is slower than 1.10" in svg
    spec = {**VERSIONS.spec([], "op"), "data": {"values": VERSIONS.records(run)}, "config": vega.config()}
    drawn = vl_convert.vegalite_to_svg(spec)
    places = [drawn.index(f">lmdb 1.{minor}<") for minor in range(8, 13)]
    assert places == sorted(places)


def test_page_has_chart_of_versions_only_with_versions(run: Run, tmp_path: Path) -> None:
    without = reads(lmdb=around(1), sqlite=around(2))
    for each, shown in ((run, True), (without, False)):
        path = written(each, tmp_path / f"{shown}.json")
        assert ('id="chart-versions"' in build.build([results.load(path)])) == shown


def test_plot_without_versions_says_what_it_needs() -> None:
    run = reads(lmdb=around(1))
    with pytest.raises(UsageError, match="takes two versions of an engine: -e ENGINE@VERSION"):
        plot.draw_chart(run, plot.chart(run, "versions"), Choice())
