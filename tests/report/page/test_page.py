"""The page in a browser: its charts, tables and filters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import runfiles
from runfiles import BULK, ENGINES, PHASES, SPEAKS_AGAINST
from shell import run_line

from dyno import results
from dyno.contracts.model import Tier
from dyno.report.charts import FIXED, vega
from dyno.report.tables import units, wording
from dyno.report.tables.table import groups

pytestmark = pytest.mark.usefixtures("processes")

START = ("read", "process")
DRAWN = ("throughput", "ratios", "account", "latency", "series", "size")


def figure(page: Any, name: str) -> Any:
    """The figure of a chart after drawing. It is hidden or missing if there is nothing to draw."""
    found = page.locator(f"#chart-{name}")
    if found.is_visible():
        found.scroll_into_view_if_needed()
        page.wait_for_selector(f"#chart-{name} .live svg")
    return found


def texts(page: Any, name: str) -> str:
    """All texts of a chart."""
    return " ".join(figure(page, name).locator("svg text").all_text_contents())


def table(page: Any, name: str) -> list[list[str]]:
    """Opens a chart's table view and returns its rows."""
    found = figure(page, name)
    button = found.get_by_role("button", name="Table")
    if found.is_hidden():
        return []
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    return [row.locator("th, td").all_inner_texts() for row in found.locator(".data tbody tr").all()]


def choose(page: Any, **chosen: str) -> None:
    for name, value in chosen.items():
        page.locator(f"#filters [name='{name}']").select_option(value)


def heads(page: Any, name: str) -> list[str]:
    return figure(page, name).locator(".data caption").inner_text()


def test_no_label_is_cut(made: Path, report: Callable[..., Path], visit: Callable[..., Any], tmp_path: Path) -> None:
    remarks = ["wide", "stall 0.1 s at 0.2 s", "cores 97 %", "harness 12 %", "short", "a-caveat-of-its-own"]
    header, *trials = [json.loads(line) for line in made.read_text().splitlines()]
    for trial in trials:
        trial["caveats"] = [{"code": code, "text": "is made up"} for code in remarks]
    run = tmp_path / "remarks.json"
    run.write_text("".join(json.dumps(line) + "\n" for line in [header, *trials]))
    file = report(run)
    for width in (400, 1_000, 1_400):
        page = visit(file, width=width)
        for name in DRAWN:
            labels = figure(page, name).locator("svg text").all_text_contents()
            # Only whole remarks are left out.
            assert [each for each in labels if "…" in each and not each.endswith(", …")] == [], name
            outside = page.locator(f"#chart-{name} svg").evaluate(
                """svg => [...svg.querySelectorAll("text")].filter(
                  (text) => text.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1).length"""
            )
            assert outside == 0, name
        if width > 600:
            assert "stall 0.1 s at 0.2 s, …" in texts(page, "throughput")


# -- charts ---------------------------------------------------------------------------------------------------


def drawn(page: Any, name: str, engines: Sequence[str] = (*ENGINES, "brief")) -> set[str]:
    """The engines with a mark in a chart, identified by colour, without the legend. `engines`: all engines of the
    run.
    """
    marks = (
        figure(page, name)
        .locator("svg .role-mark path")
        .evaluate_all("marks => marks.flatMap(mark => [mark.getAttribute('fill'), mark.getAttribute('stroke')])")
    )
    scale = vega.scale(engines, "color")
    return {engine for engine, colour in zip(scale["domain"], scale["range"], strict=True) if colour in marks}


def test_default_view_describes_charts_and_marks_all_engines(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    chosen = page.evaluate("Object.fromEntries(new FormData(document.getElementById('filters')))")
    assert (chosen["phase"], chosen["tier"]) == START, "the first phase that has latencies"
    for name in ("throughput", "latency", "series", "size"):
        assert drawn(page, name) == set(ENGINES), name
    # In the chart of ratios, colours show verdicts, and the baseline has no mark.
    assert figure(page, "ratios").locator("svg .mark-symbol.role-mark > path").count() == len(ENGINES) - 1
    assert all(engine.partition(":")[0] in texts(page, "ratios") for engine in ENGINES[1:])
    for chart in FIXED:
        drawing = figure(page, chart.name)
        if drawing.is_visible():
            label = drawing.locator(".canvas[role=img]").get_attribute("aria-label") or ""
            assert chart.title in label and "read at tier process" in label


def test_sweep_over_clients_follows_filters_and_marks_engines(
    page_of_clients: Path, visit: Callable[..., Any]
) -> None:
    page = visit(page_of_clients, "#run=0&phase=read&tier=process")
    assert drawn(page, "clients") == set(ENGINES)
    assert len(table(page, "clients")) == len(ENGINES) * 3
    assert "three blocks" in figure(page, "ratios").inner_text() or "more sample" in texts(page, "ratios")
    assert "clients 1" in heads(page, "throughput")
    choose(page, **{"p.clients": "4"})
    assert "clients 4" in heads(page, "throughput")
    assert page.evaluate("location.hash").find("p.clients=4") > 0
    # A chart that spans the parameter needs no choice of a value.
    assert "clients 4" not in heads(page, "clients")


def test_chart_without_data_is_omitted(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    assert page.locator("#chart-clients").count() == 0, "a sweep is there where something is swept"
    assert page.locator("#chart-parts").count() == 0, "no engine tells parts"
    choose(page, phase=BULK)
    assert [figure(page, name).is_visible() for name in DRAWN] == [True, True, True, False, False, True]
    choose(page, phase="read")
    assert all(figure(page, name).is_visible() for name in DRAWN)


def test_chart_tables_match_figures_of_results(page_of_made: Path, made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    group = next(g for g in groups(results.load(made)) if (g.phase, g.tier) == (START[0], Tier(START[1])))
    rows = {row.name: row.summary for row in group.rows}
    shown = {row[0]: row for row in table(page, "throughput")}
    assert list(shown) == list(ENGINES)
    for name in ENGINES:
        found = rows[name].throughput
        assert found is not None and found.low is not None and found.high is not None
        assert shown[name][1:4] == [units.rate(found.median), units.rate(found.low), units.rate(found.high)]
        assert shown[name][5:7] == [
            units.duration(rows[name].client_cpu_ns),
            units.duration(rows[name].server_cpu_ns),
        ]
    sizes = {row[0]: row[1] for row in table(page, "size")}
    assert sizes == {name: units.size(rows[name].bytes_on_disk) for name in ENGINES}
    for row in table(page, "latency"):
        p50 = rows[row[0]].latency_ns["p50"]
        assert units.duration(p50) in row, row


def test_a_table_can_be_sorted(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    best_first = [row[0] for row in table(page, "throughput")]
    button = figure(page, "throughput").get_by_role("button", name="median a second")
    button.click()
    assert [row[0] for row in table(page, "throughput")] == best_first[::-1]
    assert button.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    button.click()
    assert [row[0] for row in table(page, "throughput")] == best_first
    assert button.locator("xpath=..").get_attribute("aria-sort") == "descending"


# -- filters --------------------------------------------------------------------------------------------------


def test_filters_update_charts_and_tables(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    choose(page, tier="process", phase="read")
    assert [row[0] for row in table(page, "throughput")] == list(ENGINES)
    before = figure(page, "throughput").locator("svg").inner_html()
    choose(page, phase="scan")
    page.wait_for_function(
        "before => document.querySelector('#chart-throughput .live svg')?.innerHTML !== before", arg=before
    )
    assert "scan at tier process" in heads(page, "throughput")
    assert "scan at tier process" in page.get_by_role("status").inner_text()
    choose(page, tier="volatile")
    assert [row[0] for row in table(page, "throughput")] == ["brief"]
    choose(page, tier="process")
    page.get_by_role("checkbox", name="even").uncheck()
    assert [row[0] for row in table(page, "throughput")] == ["quick", "slow:cache_mib=8"]
    page.wait_for_function("!document.querySelector('#chart-throughput .live svg').textContent.includes('even')")
    assert drawn(page, "throughput") == {"quick", "slow:cache_mib=8"}


def test_baseline_and_floors_are_those_selected(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, "#run=0&phase=read&tier=process")
    assert {row[1] for row in table(page, "ratios")} == {"quick"}, "the best of the phase"
    choose(page, baseline="even")
    assert {(row[0], row[1]) for row in table(page, "ratios")} == {("quick", "even"), ("slow:cache_mib=8", "even")}
    assert "nothing" not in [row[0] for row in table(page, "throughput")]
    page.get_by_role("checkbox", name="nothing (floor)").check()
    assert "nothing" in [row[0] for row in table(page, "throughput")]


def test_charts_never_mix_tiers(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    for tier, engines in (("process", set(ENGINES)), ("volatile", {"brief"})):
        choose(page, tier=tier)
        for chart in DRAWN:
            assert {row[0] for row in table(page, chart)} <= engines


def test_address_restores_the_view(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    choose(page, tier="process", phase="scan", baseline="even")
    page.get_by_role("checkbox", name="quick").uncheck()
    address = page.evaluate("location.hash")
    other = visit(page_of_made, address)
    for name, value in (("tier", "process"), ("phase", "scan"), ("baseline", "even")):
        assert other.locator(f"#filters [name='{name}']").input_value() == value
    assert not other.get_by_role("checkbox", name="quick").is_checked()
    assert table(other, "throughput") == table(page, "throughput")
    other.get_by_role("button", name="Reset").click()
    assert other.get_by_role("checkbox", name="quick").is_checked()


def test_chart_link_restores_view_and_scrolls_to_chart(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    choose(page, tier="process", phase="scan")
    figure = page.locator("figure:not([hidden])").last
    # Charts are drawn when they come into view, which moves everything below, including a link under the pointer.
    figure.scroll_into_view_if_needed()
    figure.locator(".live svg").wait_for()
    figure.get_by_role("link", name="Link").click()
    # Browsers may follow a link after the click has returned.
    page.wait_for_function("location.hash.includes('chart=')")
    address = page.evaluate("location.hash")
    assert "phase=scan" in address
    other = visit(page_of_made, address)
    assert other.locator("#filters [name='phase']").input_value() == "scan"
    at = f"document.getElementById('{figure.get_attribute('id')}').getBoundingClientRect().top"
    for seen in (page, other):
        seen.wait_for_function(f"{at} >= -2 && {at} < innerHeight")
    # The address of an unknown chart leads to the top of the page.
    elsewhere = visit(page_of_made, address.partition("&chart=")[0] + "&chart=none")
    assert elsewhere.evaluate("scrollY") == 0


def test_phase_aliases_are_shown_in_filters_and_charts(
    made: Path, report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    first, *trials = made.read_text().splitlines()
    header = json.loads(first)
    told = header.get("phases") or [{"name": name} for name in header["plan"]["phases"]]
    header["phases"] = [{**phase, "alias": f"known-as-{phase['name']}"} for phase in told]
    path = tmp_path / "aliases.json"
    path.write_text("\n".join([json.dumps(header), *trials]) + "\n")
    page = visit(report(path))
    choose(page, tier="process", phase="scan")
    options = page.locator("#filters [name='phase'] option").all_inner_texts()
    assert options and all(text.startswith("known-as-") for text in options)
    assert "known-as-scan" in page.locator("#selection").inner_text()
    assert "known-as-scan" in str(figure(page, "throughput").locator(".data caption").text_content())
    assert set(options) <= set(page.locator("a.phase").all_inner_texts())


def test_copy_button_puts_png_on_clipboard(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, permissions=["clipboard-read", "clipboard-write"])
    button = page.locator("#chart-throughput").get_by_role("button", name="Copy")
    # Only a focused page may write to the clipboard.
    page.bring_to_front()
    # Use the keyboard: a chart drawn at this moment may move the button away from the mouse.
    button.press("Enter")
    page.wait_for_selector("#chart-throughput [data-copy=done], #chart-throughput [data-copy=failed]")
    assert button.get_attribute("data-copy") == "done"
    first = page.evaluate("""async () => {
        const [item] = await navigator.clipboard.read();
        const bytes = new Uint8Array(await (await item.getType("image/png")).arrayBuffer());
        return [...bytes.slice(0, 8), bytes.length > 10000];
    }""")
    assert first == [*b"\x89PNG\r\n\x1a\n", True]


def test_unknown_values_in_address_are_harmless(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, "#run=9&phase=none&tier=x&p.clients=7&engines=some&engine=none&baseline=%3Cb%3E")
    assert page.locator("#filters [name='phase']").input_value() in PHASES
    assert page.get_by_role("status").inner_text() == "No engine is chosen."


def test_overview_link_selects_phase_and_tier(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, "#run=0&phase=read&tier=process")
    page.locator("#overview details").filter(has_text="Tier volatile").get_by_role("link", name="scan").click()
    # The address changes at once, but the page follows later.
    page.wait_for_function("document.querySelector('#filters [name=phase]').value === 'scan'")
    assert page.locator("#filters [name='tier']").input_value() == "volatile"
    assert page.locator("#overview [aria-current]").all_inner_texts() == ["scan"]


def test_overview_link_selects_parameters(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    """Uses values of all types: Python and JavaScript format some of them differently."""
    params: dict[str, list[Any]] = {"share": [0.5, 2.0], "sync": [True, False], "mix": ["a", "a & b"]}
    page = visit(report(runfiles.write(tmp_path / "r.json", params=params, samples=1, phases=["read"])))
    tables = page.locator("#overview details").filter(has_text="Tier process")
    assert tables.count() == 8
    for at, wanted in ((7, ["2", "false", "a & b"]), (0, ["0.5", "true", "a"])):
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        tables.nth(at).get_by_role("link").click()
        page.wait_for_function(
            "wanted => [...document.querySelectorAll('#params select')].every((one, at) => one.value === wanted[at])",
            arg=wanted,
        )
        assert page.locator("#overview [aria-current]").count() == 1


def test_runs_of_same_name_are_shown_with_directory(
    report: Callable[..., Path], made: Path, clients: Path, tmp_path: Path, visit: Callable[..., Any]
) -> None:
    for place, run in (("before", made), ("after", clients)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "r.json").write_bytes(run.read_bytes())
    page = visit(report(Path("before/r.json"), Path("after/r.json")))
    names = page.locator("#filters [name='run'] option").all_inner_texts()
    assert names == ["before/r.json", "after/r.json"]


def test_run_selector_switches_between_runs(
    report: Callable[..., Path], made: Path, clients: Path, visit: Callable[..., Any]
) -> None:
    page = visit(report(made, clients))
    assert page.locator("#filters [name='run'] option").all_inner_texts() == ["made.json", "clients.json"]
    answers = page.locator("section.answer").all_inner_texts()
    assert len(answers) == 2 and "Not complete" in answers[1] and "Not complete" not in answers[0]
    assert page.locator("#filters [name='p.clients']").count() == 0
    choose(page, run="1")
    assert page.locator("#filters [name='p.clients']").count() == 1
    assert page.locator("#results [data-run='0']").is_hidden()
    assert page.locator("#results [data-run='1']").is_visible()


# -- the answer and its doubts ------------------------------------------------------------------------------------


@pytest.mark.claim("Doubts are shown beside the number in pages and charts too")
def test_answer_stands_above_overview_with_its_doubts(
    page_of_made: Path, made: Path, visit: Callable[..., Any]
) -> None:
    page = visit(page_of_made)
    answer = page.locator("section.answer").inner_text().replace("\n", " ").replace("\u00a0", " ")
    for sentence in wording.answers(results.load(made)):
        assert sentence in re.sub(r"\s+", " ", answer)
    assert SPEAKS_AGAINST in answer
    preview = page.locator("meta[property='og:description']").get_attribute("content")
    assert wording.answers(results.load(made))[0].startswith(preview.replace("\u00a0", " "))
    assert "budget: the time budget ended the phase" in answer
    top = page.evaluate("document.querySelector('section.answer').getBoundingClientRect().bottom")
    assert top < page.evaluate("document.querySelector('#overview').getBoundingClientRect().top")


def test_a_run_without_a_figure_says_so(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    page = visit(report(runfiles.write(tmp_path / "r.json", blocks=0)))
    answer = page.locator("section.answer").inner_text()
    assert (
        "there is no answer" in answer and "0 of 26 trials" in answer and "12 of 12 figures have no number" in answer
    )
    assert "Nothing was measured" in page.locator("#overview").inner_text()
    assert table(page, "ratios") == []


@pytest.mark.claim("Doubts are shown beside the number in pages and charts too")
def test_doubts_appear_beside_figures_in_tables_and_charts(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, "#run=0&phase=scan&tier=process")
    process = page.locator("#overview details").filter(has_text="Tier process")
    row = process.locator("tr").filter(has=page.get_by_role("link", name="scan"))
    cells = dict(
        zip(process.locator("thead th").all_inner_texts(), row.locator("th, td").all_inner_texts(), strict=True)
    )
    assert "budget" in cells["even"] and "budget" not in cells["quick"]
    assert "fastest" in cells["quick"] and "fastest" not in cells["even"]
    mark = row.locator("td .doubt").nth(0)
    assert mark.inner_text().startswith("?") and "time budget" in (mark.get_attribute("title") or "")
    shades = [cell.evaluate("one => one.style.getPropertyValue('--share')") for cell in row.locator("td").all()]
    assert shades[0] == "100%" and shades == sorted(shades, key=lambda text: -int(text[:-1]))
    notes = figure(page, "throughput").locator(".notes").inner_text()
    assert re.search("even: .*time budget ended it", notes) and "quick" not in notes
    assert "budget" in next(row for row in table(page, "throughput") if row[0] == "even")[-1]
    results_row = page.locator("#results tr").filter(has_text="even").filter(has_text="budget")
    assert results_row.count() == 1


def test_client_and_server_cpu_time_accompany_throughput(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    process = page.locator("#overview details").filter(has_text="Tier process")
    row = process.locator("tr").filter(has=page.get_by_role("link", name="read"))
    below = [cell.locator(".cost").all_inner_texts() for cell in row.locator("td").all()]
    assert [texts[1:] for texts in below] == [["20 µs"], ["20 µs + 30 µs"], ["20 µs"]], "even has a server"
    assert all(re.fullmatch(r"p99 [\d.]+ .s", texts[0]) for texts in below), below
    page.locator("details.all summary").press("Enter")
    title = page.locator("#results h3").filter(has_text="read, tier process")
    table_ = title.locator("xpath=following-sibling::*[1]").locator("table")
    assert table_.locator("thead th").all_inner_texts()[1:5] == [
        *("op/s", "95 % interval", "client CPU/op", "server CPU/op")
    ]
    shown = {line[0].split()[0]: line[3:5] for line in map(_cells, table_.locator("tbody tr").all())}
    assert shown == {
        **{name: ["20 µs", "–"] for name in ("quick", "slow:cache_mib=8")},
        "even": ["20 µs", "30 µs"],
    }
    floors = title.locator("xpath=following-sibling::p[1]").inner_text()
    assert re.fullmatch(r"Floors, which do nothing: nothing [\d,.]+ op/s\.", floors)


def _cells(line: Any) -> list[str]:
    found: list[str] = line.locator("th, td").all_inner_texts()
    return found


# -- light and dark -------------------------------------------------------------------------------------------------


def ink(page: Any) -> str:
    figure(page, "throughput")
    return str(page.locator("#chart-throughput .live svg text").first.get_attribute("fill"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_theme_follows_system_and_remembers_toggle(
    page_of_made: Path, visit: Callable[..., Any], scheme: str
) -> None:
    page = visit(page_of_made, color_scheme=scheme)
    toggle = page.get_by_role("button", name="Dark")
    assert toggle.get_attribute("aria-pressed") == str(scheme == "dark").lower()
    before = ink(page), page.evaluate("getComputedStyle(document.body).backgroundColor")
    toggle.click()
    figure(page, "throughput")
    page.wait_for_function(
        "before => document.querySelector('#chart-throughput .live svg text')?.getAttribute('fill') !== before",
        arg=before[0],
    )
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert after != before[1]
    page.reload()
    page.wait_for_selector("html.ready")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after, "remembered"


# -- sweeps, and runs without tiers ---------------------------------------------------------------------------------


def test_sweep_shows_where_another_engine_becomes_faster(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    """Swaps the times of the two engines at the larger value."""
    run = results.load(runfiles.write(tmp_path / "r.json", params={"records": (100, 10_000)}))
    swapped = {"quick": "even", "even": "quick"}
    rank = {"quick": 1.0, "even": 9.0}

    def attempt(found: results.Attempt) -> results.Attempt:
        cell = run.cells[found.cell]
        name = swapped.get(cell.engine) if cell.params["records"] == 10_000 else None
        factor = rank[name] / rank[cell.engine] if name else 1.0
        return replace(found, samples=tuple(replace(s, elapsed_ns=int(s.elapsed_ns * factor)) for s in found.samples))

    (tmp_path / "r.json").unlink()
    results.create(tmp_path / "r.json", run.recorded, list(run.cells))
    for found in run.attempts:
        results.append(tmp_path / "r.json", attempt(found))
    page = visit(report(tmp_path / "r.json"), "#run=0&phase=read&tier=process")
    said = figure(page, "sweep-records").locator(".says li").all_inner_texts()
    assert any(re.match(r"from records = [\d,]+ on, even is faster than quick", text) for text in said), said
    assert len(table(page, "sweep-records")) == len(ENGINES) * 2
    rows = page.locator("table.crossings tbody tr").all_inner_texts()
    assert any("quick" in row and "even" in row and "100 and 10,000" in row for row in rows)
    choose(page, phase="scan")
    assert figure(page, "sweep-records").locator(".says li").count() > 0


def test_run_without_tiers_shows_no_tier(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    text = runfiles.write(tmp_path / "r.json", tiers={Tier.PROCESS: ENGINES}).read_text()
    lines = text.replace('"tier":"process"', '"tier":null').splitlines()
    (tmp_path / "r.json").write_bytes(b"".join(run_line(json.loads(line)) for line in lines))
    page = visit(report(tmp_path / "r.json"), "#run=0&phase=scan&tier=")
    assert page.locator("#filters [name='tier']").is_hidden()
    assert drawn(page, "throughput", ENGINES) == set(ENGINES)
    shown = page.locator("main").inner_text()
    assert not re.search(r"\btier (none|null|undefined|process)\b", shown, re.IGNORECASE)
    assert page.locator("table a.phase[aria-current]").count() == 1
