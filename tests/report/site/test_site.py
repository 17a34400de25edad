"""`dyno site`: its list, comparisons and histories in Chromium, opened as files; and its directory."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import runfiles
from shell import DATA, Shell, is_one_line, wait_for

from dyno.report.site import data
from dyno.report.site.build import build, find
from dyno.report.tables import wording
from dyno.stats.verdict import Verdict

pytestmark = pytest.mark.usefixtures("processes", "without_static_charts")

HERE, THERE = "A Processor", "Another Processor"
Line = dict[str, Any]


def altered(
    source: Path,
    path: Path,
    change: Callable[[Line, list[Line]], None] = lambda header, trials: None,
    speed: float = 1.0,
    noise: float = 0.01,
    created: str | None = None,
    blocks: int | None = None,
) -> Path:
    """Copies a run with its speed multiplied and separate noise, optionally with only its first blocks."""
    seeded = random.Random(path.name)
    header, *trials = [json.loads(line) for line in source.read_text().splitlines()]
    trials = [trial for trial in trials if blocks is None or trial["block"] < blocks]
    header["created"] = created or header["created"]
    for trial in trials:
        for sample in trial["samples"]:
            sample["elapsed_ns"] = int(sample["elapsed_ns"] / speed * seeded.lognormvariate(0, noise))
    change(header, trials)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in [header, *trials]))
    return path


def on(model: str) -> Callable[[Line, list[Line]], None]:
    def change(header: Line, trials: list[Line]) -> None:
        header["host"]["cpu"]["model"] = model

    return change


def of_suite(name: str) -> Callable[[Line, list[Line]], None]:
    def change(header: Line, trials: list[Line]) -> None:
        header["plan"]["suite"] = name
        for cell in header["cells"]:
            cell["suite"] = name
            cell["engine"] = cell["engine"].replace("brief", "terse")

    return change


def day(number: int) -> str:
    return f"2026-03-{number:02}T06:00:00+00:00"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runfiles.write(tmp_path_factory.mktemp("base") / "base.json", samples=12, operations=60, seconds=1)


@pytest.fixture(scope="module")
def runs(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of six days on one machine, slower from the fourth day on; two runs on another machine; a run of another
    suite; and an incomplete run.
    """
    place = tmp_path_factory.mktemp("runs")
    for number in range(1, 7):
        speed = 0.8 if number >= 4 else 1.0
        altered(base, place / f"day-{number}.json", on(HERE), speed, created=day(number))
    for number in (2, 5):
        altered(base, place / "there" / f"day-{number}.json", on(THERE), 2.0, created=day(number))
    altered(base, place / "else.json", of_suite("arrays"), created=day(7))
    altered(base, place / "half.json", on(HERE), created=day(8), blocks=2)
    return place


@pytest.fixture(scope="module")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"), runs)


def built(home: Path, *runs: Path) -> Path:
    ended = Shell(home, home / "work").dyno("site", *runs, "-o", home / "out")
    assert (ended.status, ended.out, ended.err) == (0, f"{home / 'out' / 'index.html'}\n", "")
    return home / "out"


def ready(page: Any) -> None:
    page.wait_for_selector("html.ready", state="attached")


def go(page: Any, address: str) -> None:
    """Navigates within the page to another address."""
    page.evaluate("address => { location.hash = address; }", address)
    page.wait_for_timeout(50)


def names(page: Any) -> list[str]:
    """Names of the visible runs, in the list's order."""
    return list(page.locator("#runs tbody tr:visible th a").all_inner_texts())


def cells(table: Any) -> list[list[str]]:
    rows = table.locator("tbody tr").all()
    return [[" ".join(text.split()) for text in row.locator("th, td").all_inner_texts()] for row in rows]


# -- the list ---------------------------------------------------------------------------------------------------


def test_list_shows_every_run_with_its_details(site: Path, runs: Path, tour: Callable[..., Any]) -> None:
    page = tour(site)
    assert names(page) == [
        "half",
        "else",
        "day-6",
        "day-5",
        "there/day-5",
        "day-4",
        "day-3",
        "day-2",
        "there/day-2",
        "day-1",
    ]
    row = page.locator("#runs tr", has=page.get_by_role("link", name="there/day-2", exact=True))
    text = row.inner_text()
    for wanted in (
        *(
            "At tier process, quick is the fastest in",
            "2026-03-02 06:00",
            "records",
        ),
        *("quick", "even", "slow:cache_mib=8", "brief", "process", "volatile", THERE, "ext4", "0.1.0", "8"),
    ):
        assert wanted in text, wanted
    assert "nothing" not in text, "a null engine is no candidate"
    half = page.locator("#runs tr", has=page.get_by_role("link", name="half", exact=True)).inner_text()
    assert "Not complete" in half


def test_list_and_run_pages_link_to_each_other(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site)
    page.get_by_role("link", name="day-3", exact=True).click()
    ready(page)
    assert page.url.endswith("/runs/day-3.html")
    page.locator("#chart-throughput").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-throughput svg")
    page.get_by_role("link", name="All runs").click()
    ready(page)
    assert page.url.endswith("/index.html")


def test_script_library_is_stored_once_per_site(site: Path) -> None:
    library = (site / "library.js").stat().st_size
    assert library > 500_000
    assert [page.name for page in site.rglob("*.html") if page.stat().st_size > library / 2] == []


def test_search_and_filters_select_runs(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site)
    search = page.get_by_label("Search")
    for words_, found in (
        ("ANOTHER", ["there/day-5", "there/day-2"]),
        ("another 03-02", ["there/day-2"]),
        ("arrays", ["else"]),
        ("cache_mib day-6", ["day-6"]),
        ("no such thing", []),
    ):
        search.fill(words_)
        assert names(page) == found, words_
        assert page.locator("#selection").inner_text() == f"{len(found)} of 10 runs"
        assert page.locator("#none").is_visible() == (not found)
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("10 of 10 runs").wait_for()
    page.get_by_label("Suite").select_option("records")
    page.get_by_label("Machine").select_option(f"{THERE}, 4 cores, 16.0 GiB of memory, ext4")
    assert names(page) == ["there/day-5", "there/day-2"]
    page.get_by_label("Engine").select_option("brief")
    assert len(names(page)) == 2
    page.get_by_label("Engine").select_option("terse")
    assert names(page) == []
    page.get_by_label("Engine").select_option("quick")
    # The address keeps the filters.
    again = tour(site, "index.html#" + page.url.partition("#")[2])
    assert names(again) == names(page)
    assert again.get_by_label("Suite").input_value() == "records"


def test_the_list_is_sorted_by_any_column(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site)
    newest = names(page)
    head = page.get_by_role("columnheader", name="created")
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert (names(page)[0], names(page)[-1]) == (newest[-1], newest[0])
    page.get_by_role("button", name="machine").click()
    assert set(names(page)[-2:]) == {"there/day-5", "there/day-2"}
    page.get_by_role("button", name="machine").click()
    assert set(names(page)[:2]) == {"there/day-5", "there/day-2"}
    assert page.locator("[aria-sort]").count() == 1


def test_commit_is_shown_beside_the_date(base: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    def at(header: Line, trials: list[Line]) -> None:
        header["commit"] = {"hash": "0123456789abcdef" * 2, "changed": True}

    altered(base, tmp_path / "runs" / "with.json", at, created=day(2))
    altered(base, tmp_path / "runs" / "without.json", created=day(1))
    site = built(tmp_path, tmp_path / "runs")
    days = [" ".join(text.split()) for text in tour(site).locator("td.day").all_inner_texts()]
    dates = ["2026-03-02 06:00", "2026-03-01 06:00"]
    assert days == [f"{dates[0]} commit 0123456789 with changes", dates[1]]
    with_commit, without = cells(tour(site, "history.html").locator("#points table"))
    assert (with_commit[1], without[1]) == (f"{dates[0]}, commit 0123456789 with changes", dates[1])


def test_two_selected_runs_are_compared(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site)
    lead = page.get_by_role("link", name="Compare", exact=True).last
    page.get_by_label("Compare day-6").check()
    assert "two runs to compare" in page.locator("#chosen").inner_text()
    page.get_by_label("Compare else").check()
    assert "different suites" in page.locator("#chosen").inner_text()
    assert not page.locator("#go").is_visible()
    page.get_by_label("Compare else").uncheck()
    page.get_by_label("Compare day-1", exact=True).check()
    assert "day-1 before, day-6 after" in page.locator("#chosen").inner_text(), "the older one is before"
    lead.click()
    ready(page)
    assert page.url.endswith("compare.html#a=day-1&b=day-6")
    assert "slower in 12 of 12 rows" in page.locator("#headline").inner_text()


def test_list_of_runs_works_without_javascript(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, java_script_enabled=False)
    assert len(names(page)) == 10
    assert not page.get_by_label("Search").is_visible()
    page.goto(f"{site.resolve().as_uri()}/compare.html")
    assert "needs JavaScript" in page.locator("main").inner_text()


# -- two runs compared ------------------------------------------------------------------------------------------


def compared(shell: Shell, before: Path, after: Path) -> Any:
    ended = shell.dyno("compare", before, after, "--json")
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


def by_command(found: Any) -> list[list[str | None]]:
    """Phase, tier, engine and verdict of each row."""
    return [[c["phase"], c["tier"], c["engine"], *told(c)] for c in found["changes"]]


def told(change: Mapping[str, Any]) -> list[str]:
    verdict = Verdict(**{name: change[name] for name in Verdict.__struct_fields__})
    return [wording.point(verdict), wording.interval(verdict), change["text"]]


def by_page(page: Any) -> list[list[str | None]]:
    found: list[list[str | None]] = []
    for table in page.locator("#rows table").all():
        phase, _, rest = table.locator("caption").inner_text().partition(", tier ")
        heads = table.locator("thead th").all_inner_texts()
        for row in cells(table):
            line = dict(zip(heads, row, strict=True))
            verdict = line["verdict"].partition(" ")[2]
            tier = rest.split()[0] if rest else None
            found.append([phase.split()[0], tier, line["engine"], line["ratio"], line["99 %"], verdict])
    return found


def in_turns(which: int) -> Callable[[Line, list[Line]], None]:
    def change(header: Line, trials: list[Line]) -> None:
        for trial in trials:
            trial["started"] = f"2026-03-01T06:{2 * trial['block'] + which:02}:00+00:00"
            # Both runs share this noise.
            for sample in trial["samples"]:
                sample["elapsed_ns"] = int(sample["elapsed_ns"] * (1 + trial["block"] % 3))

    return change


def at_a_rate(header: Line, trials: list[Line]) -> None:
    """Turns the run into an open loop, with response times proportional to the trial's length."""
    for cell in header["cells"]:
        cell["params"]["rate"] = 100
    for trial in trials:
        for sample in trial["samples"]:
            sample["response"] = runfiles_histogram(sample["elapsed_ns"])


def runfiles_histogram(elapsed_ns: int) -> str:
    from dyno.contracts.histogram import Recorder

    recorder = Recorder()
    for part in (1_000, 900):
        recorder.add_many(elapsed_ns // part, 250)
    return base64.b64encode(recorder.encode() or b"").decode()


# Changes to the base run, by name of the copy. They cover all verdicts, few and many trials, and both ways of
# comparing.
MADE: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "alike": {"noise": 0.003},
    "noisy": {"noise": 0.2, "speed": 1.05},
    "wild": {"noise": 1.5, "speed": 0.9},
    "five": {"blocks": 5, "speed": 1.02},
    "three": {"blocks": 3, "speed": 0.93, "noise": 0.04},
    "two": {"blocks": 2},
    "tenfold": {"speed": 10.3},
    "crawling": {"speed": 0.00123},
    "even": {"change": in_turns(0)},
    "odd": {"change": in_turns(1), "speed": 1.08, "noise": 0.02},
    "paced": {"change": at_a_rate},
    "late": {"change": at_a_rate, "speed": 0.7, "noise": 0.1},
}
PAIRS = [
    *[("plain", name) for name in ("alike", "noisy", "wild", "five", "three", "two", "tenfold", "crawling", "plain")],
    *[("tenfold", "plain"), ("crawling", "tenfold"), ("three", "five"), ("noisy", "wild"), ("wild", "three")],
    *[("even", "odd"), ("odd", "even"), ("even", "plain"), ("paced", "late"), ("late", "paced")],
]


@pytest.fixture(scope="module")
def kinds(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kinds")
    for name, given in MADE.items():
        altered(base, place / f"{name}.json", **given)
    return place


@pytest.fixture(scope="module")
def site_of_kinds(kinds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("site"), kinds)


@pytest.mark.claim("A site says of any two runs what dyno compare says")
def test_compare_page_matches_compare_command(
    kinds: Path, site_of_kinds: Path, tour: Callable[..., Any], shell: Shell
) -> None:
    page = tour(site_of_kinds, "compare.html")
    said = set()
    for before, after in PAIRS:
        go(page, f"a={before}&b={after}")
        found = compared(shell, kinds / f"{before}.json", kinds / f"{after}.json")
        assert by_page(page) == by_command(found), (before, after)
        assert len(found["changes"]) == 12
        rows = {(d["where"], d["what"].replace(".", " ")) for d in found["differences"]}
        assert {(row[0], row[1]) for row in cells(page.locator("#differs"))} == rows
        said |= {change["kind"] for change in found["changes"]}
        by_turns = "in turns" in page.locator("#reading").inner_text()
        assert by_turns == ({before, after} == {"even", "odd"}), (before, after)
    assert said == {"faster", "slower", "alike", "unclear"}


def test_large_site_compares_only_newest_and_adjacent_runs(
    runs: Path, tmp_path: Path, tour: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "MOST_VERDICTS", 60)
    page = tour(built(tmp_path, runs), "compare.html#a=day-6&b=half")
    assert len(by_page(page)) == 12, "the newest two"
    go(page, "a=day-1&b=day-2")
    assert len(by_page(page)) == 12, "neighbours in a history"
    go(page, "a=day-1&b=day-6")
    assert "use dyno compare" in page.locator("#headline").inner_text()
    assert page.locator("#rows").is_hidden()


@pytest.mark.claim("A site says of any two runs what dyno compare says")
def test_compare_page_matches_command_for_measured_runs(
    tmp_path: Path, tour: Callable[..., Any], shell: Shell
) -> None:
    """Both are copies of a run that was measured, with other times."""
    one, two = (altered(DATA / "run-schema-3.json", tmp_path / "runs" / f"{name}.json") for name in ("one", "two"))
    page = tour(built(tmp_path, one, two), "compare.html#a=one&b=two")
    found = compared(shell, one, two)
    assert by_page(page) == by_command(found)
    assert len(found["changes"]) == 8


def test_compare_page_lists_differences_first_and_unmatched_rows(
    base: Path, tmp_path: Path, tour: Callable[..., Any]
) -> None:
    def other(header: Line, trials: list[Line]) -> None:
        header["host"]["cpu"]["model"] = THERE
        header["host"]["memory"]["available_bytes"] = 1
        header["plan"]["budget"] = 31.0
        trials[:] = [trial for trial in trials if header["cells"][trial["cell"]]["engine"] != "even"]
        for trial in trials:
            trial["settings"]["cache_bytes"] = (8 << 20) + 1
            trial["caveats"] = []

    before = altered(base, tmp_path / "runs" / "before.json")
    after = altered(base, tmp_path / "runs" / "after.json", other)
    page = tour(built(tmp_path, before, after), "compare.html#a=before&b=after")
    rows = cells(page.locator("#differs"))
    assert rows[:2] == [
        ["machine", "cpu model", HERE, THERE],
        ["plan", "budget", "30.0", "31.0"],
    ], "what is the same, and what is never the same twice are not there"
    # Different values whose rounded texts are equal are written in full.
    assert ["quick", "cache_bytes", str(8 << 20), str((8 << 20) + 1)] in rows
    tops = [page.locator(what).bounding_box()["y"] for what in ("#differs", "#rows", "#gone")]
    assert tops == sorted(tops)
    assert "even, read, tier process: only before; after: not measured yet" in page.locator("#gone").inner_text()
    assert f"Two machines: {HERE}" in page.locator("#against").inner_text()
    remarks = {row[2]: row[-1] for row in (line for line in table_lines(page))}
    assert remarks["quick"] == "before: made-up"


def table_lines(page: Any) -> Iterator[Sequence[str]]:
    for table in page.locator("#rows table").all():
        for row in cells(table):
            yield ["", "", *row]


def test_compare_page_explains_why_runs_are_incomparable(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, "compare.html#a=day-1&b=else")
    assert (
        "day-1 is of suite records and else of arrays: nothing to compare" in page.locator("#headline").inner_text()
    )
    assert page.locator("#rows table").count() == 0
    go(page, "a=day-1&b=gone")
    assert "No run here is called gone" in page.locator("#against").inner_text()


@pytest.mark.claim("Runs with and without --awake are in no ratio, and each report says which it is")
def test_runs_with_and_without_awake_are_never_compared(base: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    """These runs don't share a history either; the list and both pages say which run kept its cores awake."""

    def kept_awake(header: Line, trials: list[Line]) -> None:
        header["plan"]["awake"] = True

    runs = tmp_path / "runs"
    altered(base, runs / "slept.json", created=day(1))
    altered(base, runs / "kept.json", kept_awake, created=day(2))
    altered(base, runs / "again.json", kept_awake, created=day(3))
    site = built(tmp_path, runs)
    page = tour(site)
    for name, said in (("slept", False), ("kept", True)):
        row = page.locator("#runs tr", has=page.get_by_role("link", name=name, exact=True)).inner_text()
        assert ("Cores kept awake." in row) is said
        assert ("cores kept awake" in tour(site, f"runs/{name}.html").locator("body").inner_text()) is said
    page = tour(site, "compare.html#a=slept&b=kept")
    refused = "kept was measured with the cores kept awake and slept without: nothing to compare."
    assert page.locator("#headline").inner_text() == refused
    assert page.locator("#rows").is_hidden()
    go(page, "a=kept&b=slept")
    assert page.locator("#headline").inner_text() == refused
    go(page, "a=kept&b=again")
    assert page.locator("#headline").inner_text().startswith("After against before: ")
    page = tour(site, "history.html")
    phases = page.locator("select[name=phase] option").all_inner_texts()
    assert [f"{phase} (cores kept awake)" for phase in phases if "awake" not in phase] == [
        phase for phase in phases if "awake" in phase
    ]
    page.locator("select[name=phase]").select_option(next(phase for phase in phases if "awake" not in phase))
    assert page.locator("#headline").inner_text().endswith(": 1 run.")


def test_compare_page_controls_select_runs_and_rows(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, "compare.html#a=day-1&b=day-6")
    page.get_by_role("button", name="Swap").click()
    assert page.url.endswith("#a=day-6&b=day-1")
    assert "faster in 12 of 12 rows" in page.locator("#headline").inner_text()
    page.get_by_label("After").select_option("half")
    assert page.url.endswith("#a=day-6&b=half")
    assert "half is not complete" in page.locator("#against").inner_text()
    page.get_by_label("Show").select_option("faster")
    assert page.locator("#rows table").count() == 0
    page.get_by_label("Show").select_option("unclear")
    assert len(by_page(page)) == 12


# -- histories --------------------------------------------------------------------------------------------------


def test_history_shows_medians_of_all_runs(site: Path, runs: Path, tour: Callable[..., Any], shell: Shell) -> None:
    page = tour(site, "history.html#suite=records&phase=read&engine=even&tier=process")
    wanted = {}
    for path in (*runs.glob("*.json"), *runs.glob("there/*.json")):
        ended = shell.dyno("show", path, "--json")
        for cell in json.loads(ended.out)["cells"]:
            if (cell["engine"], cell["phase"], cell["suite"]) == ("even", "read", "records"):
                name = path.stem if path.parent == runs else f"there/{path.stem}"
                wanted[name] = f"{cell['throughput']['median']:,.0f} op/s"
    assert len(wanted) == 9
    table = cells(page.locator("#points table"))
    assert {row[0]: row[2] for row in table} == wanted
    days = [row[1] for row in table]
    assert days == sorted(days, reverse=True), "the newest first"
    assert page.locator("#chart g.mark-line > path").count() == 2, "one for each machine"
    assert page.locator("#chart g.median_marks > path").count() == len(wanted)


def test_history_marks_a_step_and_links_its_comparison(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, "history.html#suite=records&phase=read&engine=even&tier=process")
    steps = {row[0]: row[5] for row in cells(page.locator("#points table"))}
    assert steps["day-4"].startswith("▼ slower by at least")
    marked = [name for name, said in steps.items() if said[0] in "▲▼"]
    assert page.locator("#chart g.step_marks > path").count() == len(marked) < 4
    assert steps["day-1"] == steps["there/day-2"] == "the first"
    assert "the last: day-4 than day-3, slower by at least" in page.locator("#about").inner_text()
    link = (
        page.locator("#points tr", has=page.get_by_role("link", name="day-4", exact=True)).get_by_role("link").nth(1)
    )
    link.click()
    ready(page)
    assert page.url.endswith("compare.html#a=day-3&b=day-4")
    (row,) = [row for row in by_page(page) if row[:3] == ["read", "process", "even"]]
    assert row[-1] is not None and steps["day-4"].endswith(row[-1])
    # An engine's name links back to its history.
    page.locator("#rows table").first.get_by_role("link", name="quick").click()
    ready(page)
    assert page.locator("#headline").inner_text().startswith("quick in fill, tier process")


def test_noisy_history_marks_only_the_level_change(base: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    """Runs vary by a few per cent, far more than their trials, so that most differ significantly from the previous
    run.
    """
    seeded = random.Random(7)
    for number in range(1, 14):
        speed = (1.0 if number < 8 else 0.8) * seeded.lognormvariate(0, 0.03)
        altered(base, tmp_path / "many" / f"day-{number}.json", speed=speed, created=day(number))
    page = tour(
        built(tmp_path, tmp_path / "many"),
        "history.html#suite=records&phase=read&engine=even&tier=process",
    )
    told = cells(page.locator("#points table"))
    assert sum(row[5][0] in "▲▼" for row in told) > 3, "against the run before"
    assert page.locator("#chart g.step_marks > path").count() == 1
    about = page.locator("#about").inner_text()
    assert "1 step, the last: day-8 than day-7, slower by " in about
    assert "medians of 7 runs before and 6 runs since" in about


def test_history_point_links_to_its_run(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, "history.html#suite=arrays&phase=read&engine=quick&tier=process")
    points = page.locator("#chart g.median_marks > path")
    assert points.count() == 1
    points.first.click()
    page.wait_for_url("**/runs/else.html")
    ready(page)


def test_history_selectors_offer_only_existing_choices(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, "history.html#suite=records&phase=read&engine=even&tier=process")

    def offered(label: str) -> list[str]:
        return list(page.locator(f"select[name={label}] option").all_inner_texts())

    assert offered("suite") == ["arrays", "records"]
    assert offered("engine") == ["brief", "even", "quick", "slow:cache_mib=8"]
    assert offered("tier") == ["process"]
    page.get_by_label("Engine").select_option("brief")
    assert offered("tier") == ["volatile"]
    assert page.locator("#headline").inner_text().startswith("brief in read, tier volatile: 9 runs")
    assert "engine=brief" in page.url
    page.get_by_label("Suite").select_option("arrays")
    assert offered("engine") == ["even", "quick", "slow:cache_mib=8", "terse"]
    assert page.locator("#headline").inner_text().endswith("in read, tier process: 1 run.")


def test_history_of_open_loop_shows_response_times(site_of_kinds: Path, tour: Callable[..., Any]) -> None:
    page = tour(site_of_kinds, "history.html#phase=read&engine=quick&tier=process&p.rate=100")
    rows = cells(page.locator("#points table"))
    assert {row[0] for row in rows} == {"paced", "late"}
    assert all(row[2].endswith("ms") for row in rows)
    assert "p99 of the response time" in page.locator("#chart").inner_text()
    page.get_by_role("combobox", name="rate").select_option("max")
    assert len(cells(page.locator("#points table"))) == len(MADE) - 2


def test_failed_run_in_history_shows_cause_without_point(
    base: Path, tmp_path: Path, tour: Callable[..., Any]
) -> None:
    def broken(header: Line, trials: list[Line]) -> None:
        for trial in trials:
            trial.update(outcome="crash", why="it fell", samples=[])

    altered(base, tmp_path / "runs" / "good.json", created=day(1))
    altered(base, tmp_path / "runs" / "broken.json", broken, created=day(2))
    altered(base, tmp_path / "runs" / "later.json", created=day(3), speed=2)
    page = tour(built(tmp_path, tmp_path / "runs"), "history.html#phase=read&engine=quick&tier=process")
    rows = cells(page.locator("#points table"))
    assert rows[0][0] == "later" and rows[0][5].startswith("▲"), "against the last that has a number"
    assert rows[1][:4] == ["broken", "2026-03-02 06:00", "crash: it fell", "–"]
    assert (
        page.locator("#chart .canvas").get_attribute("aria-label").endswith("2 points. The table below has them all.")
    )


# -- accessibility and safety -----------------------------------------------------------------------------------

PAGES = ("index.html", "compare.html#a=day-1&b=there/day-5", "history.html#phase=read&engine=even")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_280), ("dark", 360)])
def test_axe_finds_no_violations(site: Path, tour: Callable[..., Any], scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for address in PAGES:
        page = tour(site, address, width=width, color_scheme=scheme)
        if address == "index.html":
            page.get_by_label("Compare day-6").check()
            page.get_by_label("Compare day-3").check()
        found = Axe().run(page).response
        assert len(found["passes"]) > 15
        assert [(v["impact"], v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"]] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


def test_run_row_fits_a_narrow_screen(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, width=360)
    cells_ = page.locator("#runs tbody tr").first.locator("th, td").all()
    boxes = [cell.bounding_box() for cell in cells_]
    assert len(boxes) == 9
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 360 for box in boxes)


def test_theme_persists_across_pages(site: Path, tour: Callable[..., Any]) -> None:
    page = tour(site, color_scheme="light")
    page.get_by_role("button", name="Dark").click()
    for address in ("compare.html", "history.html", "runs/day-1.html"):
        page.goto(f"{site.resolve().as_uri()}/{address}")
        ready(page)
        assert page.locator("html").get_attribute("data-theme") == "dark", address


def test_markup_in_names_is_shown_as_text(base: Path, tmp_path: Path, tour: Callable[..., Any]) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&</script>"

    def named(header: Line, trials: list[Line]) -> None:
        header["host"]["cpu"]["model"] = evil
        header["dyno"] = evil
        for cell in header["cells"]:
            cell["engine"] = evil if cell["engine"] == "even" else cell["engine"]
        for trial in trials:
            trial["version"] = evil

    for name in ("a<b>", "c&d"):
        altered(base, tmp_path / "runs" / f"{name}.json", named, noise=0.1 if name == "c&d" else 0.01)
    site = built(tmp_path, tmp_path / "runs")
    assert sorted(path.name for path in (site / "runs").iterdir()) == ["a-b.html", "c-d.html"]
    for address in ("index.html", "compare.html", "history.html", "runs/c-d.html"):
        page = tour(site, address)
        assert page.locator("img").count() == 0
        if address != "history.html":
            assert evil in page.locator("main").inner_text(), address


def test_security_policy_allows_only_the_hashed_script(site: Path) -> None:
    for name in ("index", "compare"):
        text = html.unescape((site / f"{name}.html").read_text())
        policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe" not in policy and "self" not in policy, name


# -- the directory ----------------------------------------------------------------------------------------------


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_rebuild_replaces_only_files_written_by_dyno(base: Path, tmp_path: Path, shell: Shell) -> None:
    one, two = (altered(base, tmp_path / f"{name}.json") for name in ("one", "two"))
    site = built(tmp_path, one, two)
    (site / "CNAME").write_text("example.org")
    before = files(site)
    assert {"runs/one.html", "runs/two.html", "index.html"} <= before.keys()
    assert built(tmp_path, one, two) == site
    assert files(site) == before, "the same runs give the same files"
    built(tmp_path, two)
    after = files(site)
    assert before.keys() - after.keys() == {"runs/one.html", "league-records.html"}
    assert (after["CNAME"], after["runs/two.html"]) == (b"example.org", before["runs/two.html"])
    assert b"runs/one.html" not in after["index.html"]


def test_foreign_output_directory_is_refused(base: Path, tmp_path: Path, shell: Shell) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    marked = tmp_path / "marked"
    marked.mkdir()
    (marked / ".dyno-site").write_text('{"files": {"../base.json": []}}')
    elder = tmp_path / "elder"
    elder.mkdir()
    (elder / ".dyno-site").write_text('{"files": ["index.html"]}')
    for place, why in (
        (foreign, "was not made by dyno site"),
        (marked, "was not made by dyno site"),
        (elder, "was not made by dyno site"),
        (foreign / "letter.txt", "is not a directory"),
        (foreign / "letter.txt" / "below", "can't write"),
    ):
        ended = shell.dyno("site", base, "-o", place)
        assert ended.status == 2 and is_one_line(ended.err) and why in ended.err, (place, ended.err)
    assert files(foreign) == {"letter.txt": b"dear"}
    (tmp_path / "empty").mkdir()
    assert shell.dyno("site", base, "-o", tmp_path / "empty").status == 0


def manifest(**files: bytes | str) -> str:
    """A manifest that claims to have written files with these contents."""
    contents = {name: value if isinstance(value, bytes) else value.encode() for name, value in files.items()}
    return json.dumps({"files": {name: [hashlib.sha256(data).hexdigest()] for name, data in contents.items()}})


@pytest.mark.parametrize("link", ["runs", "runs/base.html", "index.html", ".dyno-site"])
def test_symlink_in_site_directory_is_refused(link: str, base: Path, tmp_path: Path, shell: Shell) -> None:
    site, away = tmp_path / "site", tmp_path / "away"
    for place in (site / "runs", away):
        place.mkdir(parents=True)
    claimed = manifest(**dict.fromkeys(("index.html", "runs/base.html", "runs/gone.html"), "precious"))
    (site / ".dyno-site").write_text(claimed)
    for name in ("base.html", "gone.html", "index.html"):
        (away / name).write_text("precious")
    (away / ".dyno-site").write_text(claimed)
    (site / link).rmdir() if link == "runs" else (site / link).unlink(missing_ok=True)
    (site / link).symlink_to(away if link == "runs" else away / Path(link).name)
    before = files(away)
    ended = shell.dyno("site", base, "-o", site)
    assert ended.status == 2 and is_one_line(ended.err), ended.err
    assert files(away) == before and (site / link).is_symlink()


def test_site_build_preserves_user_files(base: Path, tmp_path: Path, shell: Shell) -> None:
    other = altered(base, tmp_path / "other.json")
    site = built(tmp_path, other)
    # A user's own page with the name of the next run's page.
    (site / "runs" / "base.html").write_text("my own")
    before = files(site)
    ended = shell.dyno("site", base, "-o", site)
    assert ended.status == 2 and is_one_line(ended.err) and "runs/base.html was not written by dyno site" in ended.err
    assert files(site) == before
    # A page that the user changed stays when its run is removed.
    (site / "runs" / "base.html").unlink()
    (site / "runs" / "other.html").write_text("changed by me")
    built(tmp_path, base)
    assert (site / "runs" / "other.html").read_text() == "changed by me"
    # A page that the manifest lists without a checksum stays too.
    (site / "runs" / "kept.html").write_text("my own")
    marker = site / ".dyno-site"
    named = json.loads(marker.read_text())
    named["files"]["runs/kept.html"] = []
    marker.write_text(json.dumps(named))
    built(tmp_path, base)
    assert (site / "runs" / "kept.html").read_text() == "my own"


def test_user_directory_named_like_build_directory_is_kept(base: Path, tmp_path: Path) -> None:
    site = built(tmp_path, base)
    own = site / ".dyno-site-new-mine"
    own.mkdir()
    (own / "letter.txt").write_text("dear")
    assert files(built(tmp_path, base))[f"{own.name}/letter.txt"] == b"dear"


def test_build_cleans_up_after_a_killed_build(base: Path, tmp_path: Path, shell: Shell) -> None:
    many = tmp_path / "many"
    for number in range(10):
        altered(base, many / f"{number}.json")
    with shell.started("site", many, "-o", tmp_path / "out") as process:
        assert wait_for(lambda: any((tmp_path / "out").glob(".*/runs/*.html")))
        process.kill()
        process.wait(60)
    assert any((tmp_path / "out").iterdir())
    site = built(tmp_path, base)
    assert [path.name for path in site.glob(".*")] == [".dyno-site"]


def test_site_finds_run_files_recursively_and_skips_others(base: Path, tmp_path: Path, shell: Shell) -> None:
    place = tmp_path / "place"
    altered(base, place / "a.json")
    altered(base, place / "A.json")
    altered(base, place / "deep" / "er" / "A.json")
    altered(base, place / ".hidden" / "c.json")
    (place / "other.json").write_text('{"kind": "shopping"}')
    (place / "broken.json").write_bytes(base.read_bytes().replace(b'"trial"', b'"trial', 1))
    ended = shell.dyno("site", place, place / "a.json", "-o", tmp_path / "out")
    assert ended.status == 0
    assert is_one_line(ended.err) and "broken.json is damaged in line 2" in ended.err
    # On some file systems, names that differ only in case are the same file.
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == [
        "A.html",
        "a-2.html",
        "deep-er-A.html",
    ]


@pytest.mark.claim("A run of a site keeps its name and its page if other runs are added")
def test_run_pages_keep_names_when_runs_are_added(base: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    for name in ("here", "there"):
        altered(base, place / name / "memory.json")
    before = dict(build(find([place]), lambda why: None))
    assert {"runs/here-memory.html", "runs/there-memory.html"} <= before.keys()
    index = str(before["index.html"])
    assert '<a href="runs/here-memory.html">here/memory</a>' in index
    altered(base, place / "before" / "memory.json")
    altered(base, place / "memory.json")
    after = dict(build(find([place]), lambda why: None))
    assert after.keys() - before.keys() == {"runs/before-memory.html", "runs/memory.html"}
    for name in ("runs/here-memory.html", "runs/there-memory.html"):
        assert after[name] == before[name]
    # The user names files: their folders are added where it takes them.
    by_user = find([place / "here" / "memory.json", place / "there" / "memory.json"])
    assert {"runs/here-memory.html", "runs/there-memory.html"} <= dict(build(by_user, print)).keys()


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("other.json", "is not a run file of dyno"),
        ("absent.json", "can't read"),
        ("empty", "no run file"),
        ("others", "is a run file"),
    ],
)
def test_argument_without_a_run_file_is_refused(named: str, why: str, tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "other.json").write_text('{"kind": "shopping"}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "other.json").write_text('{"kind": "shopping"}')
    ended = shell.dyno("site", tmp_path / named, "-o", tmp_path / "out")
    assert ended.status == 2 and is_one_line(ended.err) and why in ended.err, ended.err
    assert not (tmp_path / "out").exists()


def test_interrupted_build_leaves_the_directory_unchanged(base: Path, tmp_path: Path, shell: Shell) -> None:
    for number in range(10):
        altered(base, tmp_path / "many" / f"{number}.json")
    out = tmp_path / "out"
    interrupt_build(tmp_path / "many", out, shell)
    assert not out.exists()
    assert shell.dyno("site", base, "-o", out).status == 0
    before = files(out)
    interrupt_build(tmp_path / "many", out, shell)
    assert files(out) == before


def interrupt_build(runs: Path, out: Path, shell: Shell) -> None:
    with shell.started("site", runs, "-o", out) as process:
        # A page is written, but not yet moved to its final place.
        assert wait_for(lambda: any(out.glob(".*/runs/*.html")))
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130 and "interrupted" in err
