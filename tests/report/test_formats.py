"""Tests the formats of `dyno export`: each is read by its own tool, or checked against its published schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import junitparser
import pyperf
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from madeup import a_cell, an_attempt, changed, of_rates, recorded, written
from profiles import with_profiles
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from shell import Ended, Shell

from dyno.contracts.rank import needed_values
from dyno.fields import Sample
from dyno.report.formats import FORMATS

FAST, SLOW = [1000.0, 1010.0, 990.0, 1004.0], [500.0, 505.0, 495.0, 502.0]
SPANS = [1_000, 2_000, 3_000, 4_000, 1_000_000]
OF_PROFILES = ("folded", "speedscope")
USED = {"user_ns": 40_000_000, "system_ns": 10_000_000}


def timed(engine: str, sample: Sample) -> Sample:
    return replace(sample, histogram=recorded(*SPANS), client=USED) if engine == "lmdb" else sample


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run file with an engine that has latencies, one without latencies, one that failed, and the floor."""
    rows = (
        (a_cell("lmdb", note='a "b"\\'), {"read": FAST}),
        (a_cell("sqlite", note="plain"), {"read": SLOW}),
        (a_cell("null", floor=True, note="plain"), {"read": FAST}),
    )
    run = changed(of_rates(*rows, phases=["read"]), timed)
    broken = tuple(
        an_attempt(block, outcome="crash", why="SIGSEGV <&>", phase="read", cell=len(run.cells)) for block in range(4)
    )
    run = replace(run, cells=(*run.cells, a_cell("duckdb", note="plain")), attempts=(*run.attempts, *broken))
    return written(run, tmp_path_factory.mktemp("formats") / "r.json")


@pytest.fixture
def export(shell: Shell, file: Path) -> Any:
    def run(form: str, *words: object) -> Ended:
        return shell.dyno("export", file, "--format", form, *words)

    return run


def test_junit_case_fails_for_row_without_result(export: Any, tmp_path: Path) -> None:
    assert export("junit", "-o", tmp_path / "j.xml").status == 0
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "j.xml"))
    cases = {case.name.split("/")[1]: case for case in suite}
    assert set(cases) == {"lmdb", "sqlite", "duckdb"}
    assert (suite.tests, suite.failures) == (3, 1)
    (failure,) = cases["duckdb"].result
    assert isinstance(failure, junitparser.Failure) and "SIGSEGV <&>" in failure.message
    assert cases["lmdb"].is_passed and "1,002 op/s" in cases["lmdb"].system_out


def test_bmf_matches_bencher_schema_and_includes_interval(export: Any) -> None:
    told = json.loads(export("bmf").out)
    # In Bencher's schema a benchmark has measures, and a measure has numbers, of which `value` is required.
    for measures in told.values():
        assert measures and all(name for name in measures)
        for metric in measures.values():
            assert "value" in metric and set(metric) <= {"value", "lower_value", "upper_value"}
            assert all(isinstance(value, (int, float)) for value in metric.values())
    (name,) = [name for name in told if "lmdb" in name]
    found = told[name]["throughput"]
    assert found["lower_value"] < found["value"] == 1002 < found["upper_value"]
    assert told[name]["latency"]["value"] == pytest.approx(3_000, rel=0.001)
    assert told[name]["cpu-time"]["value"] > 0
    assert not any("duckdb" in name or "null" in name for name in told)


def test_github_action_benchmark_json_has_required_fields(export: Any) -> None:
    told = json.loads(export("github-action-benchmark").out)
    assert len(told) == 2
    for each in told:
        assert {"name", "unit", "value"} <= set(each) <= {"name", "unit", "value", "range", "extra"}
        assert isinstance(each["value"], float) and all(
            isinstance(each[key], str) for key in ("name", "unit", "extra")
        )
    assert len({each["name"] for each in told}) == 2
    assert told[0]["value"] == 1002 and told[0]["unit"] == "op/s"


def test_openmetrics_parses_with_prometheus_parser(export: Any) -> None:
    families = {family.name: family for family in text_string_to_metric_families(export("openmetrics").out)}
    by_engine = {sample.labels["engine"]: sample for sample in families["dyno_throughput"].samples}
    assert {engine: sample.value for engine, sample in by_engine.items()} == {"lmdb": 1002.0, "sqlite": 501.0}
    assert by_engine["lmdb"].labels["param_note"] == 'a "b"\\'
    valid = {sample.labels["engine"]: sample.value for sample in families["dyno_valid"].samples}
    assert valid == {"lmdb": 1.0, "sqlite": 1.0, "duckdb": 0.0}
    latencies = families["dyno_latency_seconds"]
    assert (latencies.type, latencies.unit) == ("summary", "seconds")
    at = {sample.labels["quantile"]: sample.value for sample in latencies.samples}
    assert at["0.5"] == pytest.approx(3e-6, rel=0.001) and at["1"] == pytest.approx(1e-3, rel=0.001)


def test_hlog_is_read_losslessly_by_hdrhistogram_reader(export: Any, tmp_path: Path) -> None:
    assert export("hlog", "-o", tmp_path / "r.hlog").status == 0
    reader = HistogramLogReader(str(tmp_path / "r.hlog"), HdrHistogram(1, 3_600_000_000_000, 3))
    found = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        found.append(histogram)
    reader.close()
    assert [histogram.get_total_count() for histogram in found] == [needed_values(99.9)] * 4
    assert {re.sub(r"note=.*", "", histogram.get_tag()) for histogram in found} == {"read/lmdb/"}
    assert found[0].get_max_value() == pytest.approx(1_000_000, rel=0.001)
    assert found[0].get_start_time_stamp() > 0
    # A comma or a blank would end the tag.
    assert not re.search(r"^Tag=[^,]*\s", (tmp_path / "r.hlog").read_text(), re.MULTILINE)


def test_pyperf_loads_and_compares_the_export(export: Any, tmp_path: Path) -> None:
    assert export("pyperf", "-o", tmp_path / "p.json").status == 0
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "p.json"))
    values = {name.split("/")[1]: suite.get_benchmark(name) for name in suite.get_benchmark_names()}
    assert set(values) == {"lmdb", "sqlite"}
    assert values["lmdb"].get_nvalue() == 4
    assert values["lmdb"].median() == pytest.approx(1 / 1002, rel=1e-3)
    words = (sys.executable, "-m", "pyperf", "compare_to", tmp_path / "p.json", tmp_path / "p.json")
    assert subprocess.run(words, capture_output=True).returncode == 0


def test_names_differ_for_several_rows_of_an_engine(tmp_path: Path, shell: Shell) -> None:
    rows = [(a_cell("lmdb", size=size), {"read": FAST}) for size in (1, 2)]
    file = written(of_rates(*rows, phases=["read"]), tmp_path / "several.json")
    assert set(json.loads(shell.dyno("export", file, "--format", "bmf").out)) == {
        "read/lmdb/size=1",
        "read/lmdb/size=2",
    }


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in OF_PROFILES])
def test_run_without_results_exports_to_every_format(form: str, tmp_path: Path, shell: Shell) -> None:
    run = of_rates((a_cell("lmdb"), {"read": [None] * 3}), phases=["read"])
    ended = shell.dyno("export", written(run, tmp_path / "empty.json"), "--format", form)
    assert (ended.status, ended.err) == (0, "") and ended.out.endswith("\n")


def test_check_writes_junit_with_slower_rows_failed(shell: Shell, file: Path, tmp_path: Path) -> None:
    rows = (
        (a_cell("lmdb", note='a "b"\\'), {"read": [value / 4 for value in FAST]}),
        (a_cell("sqlite", note="plain"), {"read": SLOW}),
    )
    after = written(of_rates(*rows, phases=["read"]), tmp_path / "after.json")
    assert shell.dyno("check", after, "--against", file, "--junit", tmp_path / "c.xml").status == 1
    (suite,) = junitparser.JUnitXml.fromfile(str(tmp_path / "c.xml"))
    assert {case.name.split("/")[1]: case.is_passed for case in suite} == {"lmdb": False, "sqlite": True}
    (failure,) = next(case for case in suite if not case.is_passed).result
    assert "slower" in failure.message


def test_invalid_export_is_refused_in_one_line(shell: Shell, file: Path) -> None:
    for words, line in (
        (("export", file, "--format", "junt"), "did you mean junit?"),
        (("export", file, "--format", "bmf", "-o", file), "that is a run file"),
        (("export", file), "--format"),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 2 and line in ended.err and ended.err.count("\n") == 1


def profiled(path: Path) -> Path:
    rows = (a_cell("lmdb"), {"read": FAST}), (a_cell("sqlite"), {"read": SLOW})
    fast, slow = {"lib`main;lib`get": 60, "lib`a;lib`b c": 2}, {"lib`main;lib`get": 7}
    return written(with_profiles(of_rates(*rows, phases=["read"]), "read", [fast, slow]), path)


def test_folded_stacks_have_a_line_for_each_stack(shell: Shell, tmp_path: Path) -> None:
    ended = shell.dyno("export", profiled(tmp_path / "r.json"), "--format", "folded")
    lines = ended.out.splitlines()
    assert lines == ["read/lmdb;lib`main;lib`get 60", "read/lmdb;lib`a;lib`b c 2", "read/sqlite;lib`main;lib`get 7"]


def test_speedscope_has_a_profile_for_each_row(shell: Shell, tmp_path: Path) -> None:
    data = json.loads(shell.dyno("export", profiled(tmp_path / "r.json"), "--format", "speedscope").out)
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in data["shared"]["frames"]]
    by_name = {profile["name"]: profile for profile in data["profiles"]}
    assert [*by_name] == ["read/lmdb", "read/sqlite"]
    for profile in by_name.values():
        assert (profile["type"], profile["unit"], profile["startValue"]) == ("sampled", "none", 0)
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == sum(profile["weights"])
    stack = by_name["read/sqlite"]["samples"][0]
    assert [frames[at] for at in stack] == ["main", "get"]


@pytest.mark.parametrize("form", OF_PROFILES)
def test_run_without_profiles_has_none_to_export(form: str, export: Any) -> None:
    status, out, err = export(form)
    assert (status, out) == (2, "")
    assert "has no profiles: `dyno run --profile` adds them" in err
