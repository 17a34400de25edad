"""The league of `dyno site`: what it counts over several machines, its filters in Chromium, and bundles."""

from __future__ import annotations

import html
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runfiles
from shell import Shell, is_one_line, run_line
from test_site import built

from dyno import results
from dyno.bundles import container
from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Value
from dyno.contracts.model import Tier
from dyno.fields import Sample
from dyno.results import Attempt

pytestmark = pytest.mark.usefixtures("processes", "without_static_charts")

LEAGUE = "league-records.html"
SECOND = 10**9
ENGINES = {Tier.PROCESS: ("alpha", "beta"), Tier.POWER: ("gamma", "delta")}
SPEEDS = {"alpha": 1.0, "beta": 1.5, "gamma": 0.7, "delta": 1.2}
MACHINES = {"Small": 1.0, "Middle": 7.0, "Large": 50.0}
"""Speeds of the machines."""


def measured(path: Path, machine: str, seed: int, year: int = 2026, suite: str = "records", **speeds: float) -> Path:
    """Writes a run of all engines in two phases. `speeds`: those that differ from the usual ones, by engine."""
    path.parent.mkdir(exist_ok=True)
    params: dict[str, Value] = {"clients": 1, "rate": "max"}
    cells = [Cell(suite, engine, {}, tier, params) for tier, engines in ENGINES.items() for engine in engines]
    phases = ["read", "scan"]
    plan = {"suite": suite, "phases": phases, "samples": 6, "seed": 1, "budget": 30.0, "timeout": 60}
    host = {**runfiles.HOST, "cpu": {**runfiles.CPU, "model": machine}}
    created = f"{year}-03-01T06:00:00+00:00"
    results.create(path, {"dyno": "0.1.0", "created": created, "plan": plan, "host": host}, cells)
    draws = random.Random(seed)
    for block in range(6):
        for at, cell in enumerate(cells):
            speed = (SPEEDS | speeds)[cell.engine] * MACHINES[machine]
            times = {phase: int(SECOND / speed * draws.lognormvariate(0, 0.01)) for phase in phases}
            attempt = Attempt(
                cell=at,
                block=block,
                attempt=0,
                outcome="ok",
                why=None,
                phase=None,
                samples=tuple(sample(phase, elapsed) for phase, elapsed in times.items()),
                started=created,
                duration_ns=10 * SECOND,
                version="1.2.3",
                settings={},
                caveats=(),
                resources={},
                output=None,
            )
            results.append(path, attempt)
    return path


def sample(phase: str, elapsed_ns: int) -> Sample:
    return Sample(
        phase=phase,
        unit="op",
        operations=1_000,
        items=1_000,
        elapsed_ns=elapsed_ns,
        busy_ns=elapsed_ns,
        errors=0,
        ended_by="count",
        checked=1_000,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three machines of very different speeds, of which one has three runs of two years; on the largest, alpha is
    faster than beta."""
    place = tmp_path_factory.mktemp("league")
    for seed, year in enumerate((2024, 2026, 2026)):
        measured(place / f"small-{seed}.json", "Small", seed, year)
    measured(place / "middle.json", "Middle", 10)
    measured(place / "large.json", "Large", 11, beta=0.8)
    return place


@pytest.fixture(scope="module")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"), runs)


def rows(page: Any) -> list[list[str]]:
    """The visible rows, each with its tier first."""
    return [
        [str(section.get_attribute("data-tier")), *row.locator("th, td").all_inner_texts()]
        for section in page.locator("#league section:visible").all()
        for row in section.locator("tbody tr:visible").all()
    ]


def without_times(texts: list[list[str]]) -> list[list[str]]:
    return [[tier, work, sentence.partition(" machine")[0], *rest] for tier, work, sentence, *rest in texts]


@pytest.mark.claim("A league has no ratio of two tiers or of two machines")
def test_league_counts_machines_without_mixing_machines_or_tiers(site: Path, tour: Callable[..., Any]) -> None:
    """The largest machine is 50 times as fast as the smallest, and each engine has its own tier: any ratio of two
    machines or of two tiers would differ from the engines' ratios within a run."""
    page = tour(site, LEAGUE)
    found = rows(page)
    repeated = "5 runs on 3 machines"
    assert without_times(found) == [
        ["process", "read", "beta is faster than alpha on 2 of 3", "0 of 3", repeated],
        ["process", "scan", "beta is faster than alpha on 2 of 3", "0 of 3", repeated],
        ["power", "read", "delta is faster than gamma on 3 of 3", "0 of 3", repeated],
        ["power", "scan", "delta is faster than gamma on 3 of 3", "0 of 3", repeated],
    ]
    for tier, _, sentence, *_ in found:
        engines = ENGINES[Tier(tier)]
        words = set(sentence.replace(";", " ").split())
        assert words & set(SPEEDS) == set(engines), sentence
        ratios = [float(word) for part in sentence.split(", ")[1:] for word in part.split() if "." in word]
        expected = {"process": (1.5, 1.25), "power": (1.2 / 0.7,)}[tier]
        assert all(any(abs(ratio / each - 1) < 0.05 for each in expected) for ratio in ratios), sentence
    assert "alpha is faster on 1, 1.2" in found[0][2]
    assert page.locator("th button, [aria-sort]").count() == 0, "nothing is sorted by a figure"
    text = page.locator("#league").inner_text()
    assert "/s" not in text and " ms" not in text, "no absolute figure"


def test_league_filters_recount_machines_and_persist_in_address(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, LEAGUE)
    whole = rows(page)
    assert page.locator("#selection").inner_text() == "4 of 4 comparisons"
    page.get_by_role("combobox", name="Tier").select_option("power")
    assert [row[0] for row in rows(page)] == ["power", "power"]
    page.get_by_role("combobox", name="Tier").select_option("")
    page.get_by_role("combobox", name="Engine").select_option("beta")
    assert {row[0] for row in rows(page)} == {"process"}
    page.get_by_role("combobox", name="Machine").select_option("Large, 4 cores, 16.0 GiB of memory")
    assert "alpha is faster than beta on 1 of 1 machine, 1.2" in rows(page)[0][2]
    assert rows(page)[0][4] == "1 run on 1 machine"
    page.get_by_role("combobox", name="Year").select_option("2024")
    assert rows(page) == [] and page.locator("#none").is_visible()
    page.get_by_role("combobox", name="Machine").select_option("Small, 4 cores, 16.0 GiB of memory")
    assert "beta is faster than alpha on 1 of 1 machine" in rows(page)[0][2]
    # The address keeps the filters.
    assert rows(tour(site, "league-records.html#" + page.url.partition("#")[2])) == rows(page)
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("4 of 4 comparisons").wait_for()
    assert rows(page) == whole


def test_league_works_without_javascript_and_is_linked_everywhere(site: Path, tour: Callable[..., Any]) -> None:
    plain = tour(site, LEAGUE, java_script_enabled=False)
    assert rows(plain) == rows(tour(site, LEAGUE))
    assert not plain.get_by_role("combobox", name="Year").is_visible()
    for address in ("index.html", "compare.html", "history.html"):
        page = tour(site, address)
        page.get_by_role("link", name="League", exact=True).click()
        page.wait_for_url("**/league-records.html")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_280), ("dark", 360)])
def test_axe_finds_no_violations(site: Path, tour: Callable[..., Any], scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = tour(site, LEAGUE, width=width, color_scheme=scheme)
    found = Axe().run(page).response
    assert [(v["impact"], v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"]] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_security_policy_allows_only_the_hashed_script(site: Path) -> None:
    text = html.unescape((site / "league-records.html").read_text())
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "self" not in policy


def test_markup_in_names_is_shown_as_text(tmp_path: Path, tour: Callable[..., Any]) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&</script>"
    for seed in (1, 2):
        run = measured(tmp_path / "runs" / f"{seed}.json", "Small", seed, suite=evil)
        header, *trials = [json.loads(line) for line in run.read_text().splitlines()]
        header["host"]["cpu"]["model"] = header["cells"][0]["engine"] = evil
        run.write_text("".join(json.dumps(line) + "\n" for line in [header, *trials]))
    site = built(tmp_path, tmp_path / "runs")
    (file,) = (path.name for path in site.glob("league-*.html"))
    page = tour(site, file)
    assert page.locator("img").count() == 0
    assert f"beta is faster than {evil}" in page.locator("main").inner_text()


def test_each_suite_has_its_own_league(tmp_path: Path, tour: Callable[..., Any]) -> None:
    for seed, suite in enumerate(("records", "records", "arrays", "arrays", "series")):
        measured(tmp_path / "runs" / f"{seed}.json", "Small", seed, suite=suite)
    site = built(tmp_path, tmp_path / "runs")
    # A single run is no league.
    assert sorted(path.name for path in site.glob("league-*")) == ["league-arrays.html", "league-records.html"]
    page = tour(site, "league-arrays.html")
    assert {row[4] for row in rows(page)} == {"2 runs on 1 machine"}
    page.get_by_role("link", name="records", exact=True).click()
    page.wait_for_url("**/league-records.html")


# -- bundles ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(runs: Path, tmp_path: Path) -> Path:
    """A bundle of the run on the largest machine."""
    path = tmp_path / "theirs.dyno"
    ended = Shell(tmp_path, tmp_path / "work").dyno("publish", runs / "large.json", "-o", path)
    assert ended.status == 0, ended.err
    return path


def test_bundle_counts_as_a_run(runs: Path, bundle: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    site = built(tmp_path, runs / "small-0.json", bundle)
    assert sorted(path.name for path in (site / "runs").iterdir()) == ["small-0.html", "theirs.html"]
    (row, *_) = rows(tour(site, LEAGUE))
    assert "alpha is faster than beta on 1 of 2 machines" in row[2] and row[4] == "2 runs on 2 machines"
    assert "theirs.json" in (site / "runs" / "theirs.html").read_text()


@pytest.mark.claim("A league counts each machine once, by the verdict of most of its runs")
def test_copies_of_a_run_count_once(runs: Path, bundle: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes((runs / "large.json").read_bytes())
    site = built(tmp_path, bundle, runs, copy)
    assert not (site / "runs" / "theirs.html").exists(), "the run file is there"
    assert {row[4] for row in rows(tour(site, LEAGUE))} == {"5 runs on 3 machines"}


@pytest.mark.claim("A site refuses a bundle that is damaged or contradicts itself")
@pytest.mark.parametrize("named", [True, False])
def test_a_damaged_bundle_is_refused(named: bool, runs: Path, bundle: Path, tmp_path: Path, shell: Shell) -> None:
    place = tmp_path / "place"
    place.mkdir()
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    (place / "damaged.dyno").write_bytes(content)
    ended = shell.dyno("site", runs, place / "damaged.dyno" if named else place, "-o", tmp_path / "out")
    assert ended.status == 2 and is_one_line(ended.err), ended.err
    assert "damaged.dyno is damaged" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.claim("A site refuses a bundle that is damaged or contradicts itself")
def test_a_forged_bundle_is_refused(bundle: Path, tmp_path: Path, shell: Shell) -> None:
    """Everything is hashed again, as by somebody who means harm."""
    manifest, contents = container.read(bundle)
    header, first, *rest = contents["run.json"].splitlines()
    trial = json.loads(first)
    trial["samples"][0]["elapsed_ns"] = 2 * trial["duration_ns"]
    contents["run.json"] = b"\n".join([header, run_line(trial).rstrip(), *rest, b""])
    members = {each.name: (each.role, contents[each.name]) for each in manifest.members}
    bundle.write_bytes(container.pack_members(members, []))
    ended = shell.dyno("site", bundle, "-o", tmp_path / "out")
    assert ended.status == 2 and is_one_line(ended.err), ended.err
    assert "contradicts itself" in ended.err
    assert not (tmp_path / "out").exists()
