"""Tests that the example plug-ins can be installed, are found and work."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documentation import ROOT
from plugins.vain.vain import List, Number, Object

from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier
from dyno.contracts.roles import PayloadWorkload
from dyno.contracts.suite import Job
from dyno.suites.records import PARAMS
from dyno.suites.records.conformance import CHECKS
from dyno.suites.records.port import Records
from dyno.suites.records.workload import open_port

pytestmark = pytest.mark.usefixtures("processes")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both plug-ins, installed without a network as users would."""
    place = tmp_path_factory.mktemp("plugins")
    # Install from a copy: a build leaves files beside the sources.
    sources = [shutil.copytree(ROOT / "examples" / name, place / name) for name in ("plugin-engine", "plugin-suite")]
    target = place / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    done = subprocess.run([*pip, *offline, *map(str, sources)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return target


def found_in(installed: Path, work: Path) -> dict[str, str]:
    """An environment in which Dyno finds the plug-ins, in addition to other packages on PYTHONPATH."""
    path = os.pathsep.join(filter(None, (str(installed), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path, "DYNO_WORK": str(work)}


@pytest.fixture
def dyno(installed: Path, tmp_path: Path) -> Run:
    """Runs a dyno that finds the plug-ins."""
    environment = found_in(installed, tmp_path / "work")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "dyno", *words],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env=environment,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


def cells(dyno: Run, *words: str) -> list[dict[str, Any]]:
    dyno("run", *words, "-o", "r.json")
    data: list[dict[str, Any]] = json.loads(dyno("show", "r.json", "--json").stdout)["cells"]
    return data


def test_list_shows_the_plugins(dyno: Run) -> None:
    listed = dyno("list", "engines").stdout
    rows = {line.split()[0]: line for line in listed.splitlines() if line}
    assert "records" in rows["sqlite-kv"] and "ready" in rows["sqlite-kv"]
    assert "sorting" in rows["timsort"]
    assert "sorting" in dyno("list", "suites").stdout


def test_plugin_engine_runs_every_phase(dyno: Run) -> None:
    words = ("-p", "records=300", "--samples", "1", "--tier", "power", "--budget", "1", "--phases", "all")
    rows = [cell for cell in cells(dyno, "records", "-e", "sqlite-kv", *words) if cell["engine"] == "sqlite-kv"]
    assert len(rows) == 12
    assert [cell for cell in rows if not cell["valid"] or not cell["throughput"]["median"]] == []
    assert {cell["tier"] for cell in rows} == {"power"}
    assert all(cell["bytes_on_disk"] > 0 for cell in rows)


def test_the_plugin_engine_serves_several_clients(dyno: Run) -> None:
    words = ("-p", "records=200", "--samples", "1", "--phases", "rand-key,mixed", "--clients", "2")
    assert all(cell["valid"] for cell in cells(dyno, "records", "-e", "sqlite-kv:cache_mib=8", *words))


def test_the_plugin_suite_runs_with_its_null_engine(dyno: Run) -> None:
    words = ("-p", "length=50,500", "-p", "lists=100", "--samples", "1")
    measured = cells(dyno, "sorting", *words)
    assert all(cell["valid"] for cell in measured)
    assert sorted((cell["engine"], cell["params"]["length"], cell["floor"]) for cell in measured) == [
        ("numpy-sort", 50, False),
        ("numpy-sort", 500, False),
        ("sorting-null", 50, True),
        ("sorting-null", 500, True),
        ("timsort", 50, False),
        ("timsort", 500, False),
    ]
    assert {cell["tier"] for cell in measured} == {None}
    assert {cell["items"] for cell in measured if cell["params"]["length"] == 500} == {50_000}


def test_plugin_suite_engines_pass_conformance_checks(dyno: Run) -> None:
    for engine in ("timsort", "numpy-sort"):
        checks = json.loads(dyno("conform", engine, "--json").stdout)["checks"]
        assert [(check["suite"], check["check"], check["outcome"]) for check in checks] == [
            ("sorting", "brief", "pass"),
            ("sorting", "engine", "pass"),
        ]


@pytest.fixture(scope="module")
def swept(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the suite with inserted times of 8 ns and 32 ns per number, so that the engines' curves cross."""
    home = tmp_path_factory.mktemp("swept")
    environment = found_in(installed, home / "work")
    words = ("-p", "length=10,100,1000", "-p", "lists=20", "--samples", "3", "-o", "r.json")
    command = [sys.executable, "-m", "dyno", "run", "sorting", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=240, cwd=home, env=environment)
    head, *trials = [json.loads(line) for line in (home / "r.json").read_text().splitlines()]
    for trial in trials:
        cell = head["cells"][trial["cell"]]
        quick = (cell["engine"] == "timsort") == (cell["params"]["length"] < 1_000)
        for sample in trial["samples"]:
            sample["elapsed_ns"] = sample["items"] * (8 if quick else 32) * (999 + trial["block"])
            sample["busy_ns"] = sample["elapsed_ns"]
    (home / "r.json").write_text("".join(f"{json.dumps(line)}\n" for line in (head, *trials)))
    return home / "r.json"


def test_show_formats_include_bandwidth_parts_and_kinds(dyno: Run, swept: Path) -> None:
    measured = json.loads(dyno("show", str(swept), "--json").stdout)["cells"]
    rows = {(cell["engine"], cell["params"]["length"]): cell for cell in measured}
    quick, slow = rows["timsort", 100], rows["numpy-sort", 100]
    # 8 bytes take 8 µs in `quick` and 32 µs in `slow`.
    assert quick["bandwidth"]["median"] == pytest.approx(1e6, rel=0.01) and quick["bandwidth"]["unit"] == "B/s"
    assert slow["bandwidth"]["median"] == pytest.approx(2.5e5, rel=0.01)
    assert (quick["metric"], quick["bytes"]) == ("bandwidth", 20 * 100 * 8)
    assert list(quick["latency_by_part_ns"]) == ["copy", "order"]
    assert list(quick["latency_by_kind_ns"]) == ["shuffled", "reversed"]
    parts = sum(times["p50"] for times in quick["latency_by_part_ns"].values())
    assert 0 < parts <= quick["latency_ns"]["max"] * 2
    lines = dyno("show", str(swept), "--all").stdout
    assert "1 MB/s" in lines and "tier" not in lines.split("In short")[0]
    assert re.search(r"p50 of shuffled\s", lines) and re.search(r"p50 of\s+copy", lines)
    csv_ = dyno("show", str(swept), "--csv").stdout.splitlines()
    assert {"bandwidth_median", "bytes", "metric", "reported_by"} <= set(csv_[0].split(","))
    assert "| bandwidth |" in dyno("show", str(swept), "--markdown").stdout


CROSSING = (
    "from length = 320 on, numpy-sort is faster than timsort, by bandwidth (interpolated between 100 and 1,000)"
)


def test_sweep_appears_in_terminal_page_and_charts(dyno: Run, swept: Path, tmp_path: Path) -> None:
    shown = dyno("show", str(swept)).stdout
    assert "sort, bandwidth by length" in shown and CROSSING in shown
    (line,) = (line for line in shown.splitlines() if line.split()[:1] == ["timsort"] and "length" not in line)
    assert line.split()[1:] == ["1", "MB/s", "1", "MB/s", "0.25", "MB/s"]
    dyno("plot", str(swept), "-o", "charts/")
    drawn = {path.stem: path.read_text() for path in (tmp_path / "charts").iterdir()}
    assert {"throughput", "ratios", "latency", "parts", "sweep-length"} <= drawn.keys()
    assert "numpy-sort is faster than timsort" in drawn["sweep-length"] and ">bandwidth<" in drawn["throughput"]
    assert ">copy<" in drawn["parts"]
    dyno("report", str(swept), "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    for text in ('id="chart-sweep-length"', "Where another engine becomes faster", "<td>320</td>", "1 MB/s"):
        assert text in page, text
    assert "tier None" not in page and "Tier </h3>" not in page


def test_plugin_suite_engines_are_compared_by_bandwidth(dyno: Run, swept: Path) -> None:
    comparisons = json.loads(dyno("compare", str(swept), "--baseline", "numpy-sort", "--json").stdout)["comparisons"]
    ratios = {one["params"]["length"]: (one["metric"], one["tier"], round(one["ratio"], 2)) for one in comparisons}
    assert ratios == {10: ("bandwidth", None, 4), 100: ("bandwidth", None, 4), 1000: ("bandwidth", None, 0.25)}
    assert "against timsort, the fastest, by bandwidth" in dyno("compare", str(swept)).stdout


def test_plugin_suite_supports_open_loop_and_duration(dyno: Run, tmp_path: Path) -> None:
    words = ("-p", "length=50", "-p", "lists=20", "--samples", "1", "--rate", "400", "--duration", "0.3")
    assert all(cell["valid"] for cell in cells(dyno, "sorting", *words, "--clients", "2"))
    _, *trials = [json.loads(line) for line in (tmp_path / "r.json").read_text().splitlines()]
    for trial in trials:
        (sample,) = trial["samples"]
        # The phase ran for more than one round of 20 operations.
        assert 20 < sample["operations"] <= 121
        assert (sample["ended_by"], sample["payload_bytes"]) == ("duration", None)
        assert sample["response"] and sample["late"]


def test_the_plugin_engine_has_cold_phases(dyno: Run, tmp_path: Path) -> None:
    words = ("-p", "records=2000", "--samples", "1", "--phases", "rand-key-cold")
    measured = cells(dyno, "records", "-e", "sqlite-kv", *words)
    assert all(cell["valid"] for cell in measured if cell["engine"] == "sqlite-kv")
    samples = [json.loads(line)["samples"] for line in (tmp_path / "r.json").read_text().splitlines()[1:]]
    # If the work directory is in memory, the phase is lukewarm.
    residencies = [sample["residency"] for (sample,) in samples if sample["temperature"] != "none"]
    assert [residency["file_bytes"] > 2000 * 150 for residency in residencies] == [True]


@pytest.fixture
def plugin(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a plug-in's module into this process, and removes it afterwards."""
    monkeypatch.syspath_prepend(str(installed))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.startswith(("dyno_sqlite_kv", "dyno_sorting")):
            del sys.modules[name]


@pytest.mark.parametrize("tier", list(Tier), ids=lambda tier: tier.value)
@pytest.mark.parametrize("check", CHECKS)
def test_the_plugin_engine_conforms(
    plugin: Callable[[str], ModuleType], check: str, tier: Tier, tmp_path: Path
) -> None:
    spec: EngineSpec = plugin("dyno_sqlite_kv").ENGINE
    params = {setting.name: setting.default for setting in PARAMS}
    job = Job(spec, tmp_path, tier, spec.resolve({}), params, seed=1, clients=1)

    @contextmanager
    def store(name: str, indexed: bool) -> Iterator[Records]:
        home = tmp_path / name
        home.mkdir(exist_ok=True)
        with (
            closing(spec.opener(home, tier, job.options)) as engine,
            closing(open_port(job, engine, indexed)) as port,
        ):
            yield port

    opened: Callable[[str, bool], AbstractContextManager[Records]] = store
    CHECKS[check](opened, tier)


def test_plugin_engine_reports_settings_of_its_tier(plugin: Callable[[str], ModuleType], tmp_path: Path) -> None:
    spec: EngineSpec = plugin("dyno_sqlite_kv").ENGINE
    for tier, wanted in spec.tiers.items():
        home = tmp_path / tier.value
        home.mkdir()
        with closing(spec.opener(home, tier, spec.resolve({"cache_mib": 3}))) as engine:
            assert dict(engine.settings()) == {**wanted, "cache_kib": 3 * 1024}


def test_plugin_suite_sorts_different_lists_each_round(plugin: Callable[[str], ModuleType]) -> None:
    suite = plugin("dyno_sorting.suite")
    spec: EngineSpec = plugin("dyno_sorting.engines").TIMSORT
    job = Job(spec.reduce_to_port("sorting"), Path(), None, {}, {"length": 9, "lists": 3}, seed=1, clients=1)
    phase = suite.SUITE.phases[0]

    def lists(number: int) -> list[list[int]]:
        workload = suite.SUITE.workload(job)
        with workload.connect() as port:
            (work,) = workload.work(phase, port, 0, 1, number)
            (call,) = work.calls(None)
            assert work.check([call(numbers) for numbers in work.arguments]) == 3
        assert not isinstance(workload, PayloadWorkload)
        return list(work.arguments)

    assert lists(0) == lists(0)
    assert len({repr(lists(number)) for number in range(4)}) == 4


@pytest.mark.claim("Answers are compared by exact type; their own comparison methods are never called")
def test_plugin_suite_rejects_wrong_answers(plugin: Callable[[str], ModuleType]) -> None:
    suite = plugin("dyno_sorting.suite")
    spec: EngineSpec = plugin("dyno_sorting.engines").TIMSORT
    job = Job(spec.reduce_to_port("sorting"), Path(), None, {}, {"length": 5, "lists": 2}, seed=1, clients=1)
    workload = suite.SUITE.workload(job)
    with workload.connect() as port:
        (work,) = workload.work(suite.SUITE.phases[0], port, 0, 1, 0)
    right = [sorted(numbers) for numbers in work.arguments]
    assert work.check([(numbers, 1, 2) for numbers in right]) == 2
    for claims in (
        *(right[1][::-1], Object(), List(right[1]), [Number(number) for number in right[1]]),
        tuple(right[1]),
    ):
        with pytest.raises(Exception, match="list 1 is not sorted"):
            work.check([(right[0], 1, 2), (claims, 1, 2)])
