"""The page is accessible: by keyboard, with a screen reader, on paper, on a small screen, and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import runfiles
from documentation import DOCS
from runfiles import ENGINES, SPEAKS_AGAINST

from dyno import results
from dyno.contracts.model import Tier
from dyno.report.charts import vega
from dyno.report.tables import wording

pytestmark = pytest.mark.usefixtures("processes")

PLACE = "#run=0&phase=read&tier=process"
CONTROLS = "a[href], button, input, select, summary, [tabindex='0']"


def draw_all(page: Any) -> None:
    for box in page.locator("figure:visible").all():
        box.scroll_into_view_if_needed()
        page.wait_for_function("box => box.querySelector('.live svg')", arg=box.element_handle())


@pytest.mark.parametrize(("scheme", "width"), [("light", 1_200), ("dark", 380)])
def test_axe_finds_no_violations(page_of_made: Path, visit: Callable[..., Any], scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = visit(page_of_made, PLACE, width=width, color_scheme=scheme)
    for button in page.locator("button[data-table]:visible").all():
        button.click()
    draw_all(page)
    found = Axe().run(page).response
    assert len(found["passes"]) > 20
    assert [(v["impact"], v["id"], [n["html"][:200] for n in v["nodes"]]) for v in found["violations"]] == []


def test_the_keyboard_reaches_every_control(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE)
    draw_all(page)
    page.evaluate(
        "wanted => [...document.querySelectorAll(wanted)].filter(one => one.checkVisibility())"
        ".forEach((one, at) => one.dataset.place = at)",
        CONTROLS,
    )
    wanted = page.locator("[data-place]").count()
    assert wanted > 45
    page.evaluate("scrollTo(0, 0)")
    reached, outlined = [], []
    for _ in range(wanted + 1):
        page.keyboard.press("Tab")
        place, outline = page.evaluate(
            "[document.activeElement.dataset.place, getComputedStyle(document.activeElement).outlineStyle]"
        )
        if place is None:
            break
        reached.append(int(place))
        outlined.append(outline)
    assert reached == list(range(wanted)), "every one, in the order of the page"
    assert "none" not in outlined, "the focus is seen"


def test_only_scrolling_boxes_are_tab_stops(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE)
    draw_all(page)
    for width, some in ((1_200, False), (380, True)):
        page.set_viewport_size({"width": width, "height": 900})
        draw_all(page)
        page.wait_for_function("some => Boolean(document.querySelector('.scroll[tabindex]')) === some", arg=some)
        wrong = page.evaluate(
            "[...document.querySelectorAll('.scroll, .plot')].filter("
            "(box) => (box.scrollWidth > box.clientWidth) !== (box.tabIndex === 0)).length"
        )
        assert wrong == 0


def test_the_keyboard_works_the_filters(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE)
    page.locator("#filters [name='phase']").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#filters [name='phase']").input_value() == "scan"
    page.wait_for_function("document.getElementById('selection').textContent.includes('scan at tier process')")
    assert page.evaluate("document.activeElement.name") == "phase", "it keeps the focus"
    page.get_by_role("checkbox", name="even").focus()
    page.keyboard.press("Space")
    assert not page.get_by_role("checkbox", name="even").is_checked()
    assert page.evaluate("document.activeElement.value") == "even"


def test_headings_are_in_order_and_parts_have_landmarks(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    levels = [
        int(tag[1]) for tag in page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName)")
    ]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for role in ("banner", "main", "navigation", "contentinfo", "status"):
        assert page.get_by_role(role).count() == 1, role
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main", "the skip link comes first"


def test_the_page_never_scrolls_sideways(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    engines = [*ENGINES, *(f"engine-with-a-long-name-{n}:an_option=a-long-value" for n in range(4))]
    run = runfiles.write(tmp_path / "wide.json", tiers={Tier.POWER: engines}, samples=3)
    file = report(run)
    for width in (360, 800):
        page = visit(file, width=width)
        draw_all(page)
        for button in page.locator("button[data-table]:visible").all():
            button.click()
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_page_of_many_engines_is_as_wide_as_its_window(
    report: Callable[..., Path], visit: Callable[..., Any]
) -> None:
    page = visit(report(DOCS / "results" / "versions-sql.json"), width=1_400)
    assert page.locator(".matrix thead th").count() > 18
    assert page.evaluate("document.documentElement.scrollWidth") == 1_400


def test_print_has_light_charts_and_all_tables(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE, color_scheme="dark")
    # Browsers print without waiting for timers or frames.
    ink = page.evaluate(
        """async () => {
          dispatchEvent(new Event('beforeprint'));
          for (let turn = 0; turn < 10_000; turn += 1) await null;
          return [...document.querySelectorAll('figure:not([hidden])')].map(
            (box) => box.querySelector('svg text')?.getAttribute('fill'));
        }"""
    )
    axis = vega.config(dark=False)["axis"]
    assert len(ink) == 6 and set(ink) <= {axis["labelColor"], axis["titleColor"]}
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("#filters").is_hidden() and page.locator("#theme").is_hidden()
    assert page.locator(".data:visible table").count() == 6
    page.set_viewport_size({"width": 700, "height": 1_000})
    cut = page.locator("svg.marks").evaluate_all(
        "all => all.filter(one => one.getBoundingClientRect().right > 700).length"
    )
    assert cut == 0
    assert page.pdf().startswith(b"%PDF")


def test_answer_and_tables_show_without_javascript(page_of_made: Path, made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, java_script_enabled=False)
    text = page.locator("body").inner_text().replace("\u00a0", " ")
    assert wording.answers(results.load(made))[0].partition(". ")[0] in text
    assert SPEAKS_AGAINST in text
    assert "need JavaScript" in text
    assert page.locator("#overview table:visible").count() == 2
    page.locator("details.all summary").press("Enter")
    assert page.locator("#results table:visible").count() == 6
    assert page.locator("#settings dl:visible").count() > 5
    assert drawn_before(page) == ["throughput", "ratios", "account", "latency", "series", "size"]
    for gone in ("#filters", ".tools", "#downloads", "#theme"):
        assert page.locator(f"{gone}:visible").count() == 0, gone


def drawn_before(page: Any) -> list[str]:
    """Names of the charts that are drawn without JavaScript. Asserts that each has the names of all engines."""
    figures = page.locator("figure:visible").all()
    for one in figures:
        said = " ".join(one.locator(".still svg text").all_text_contents())
        # In the chart of ratios the first engine is the baseline, which has no bar.
        assert [name for name in ENGINES if name not in said] in ([], ["quick"]), said
    return [str(one.get_attribute("id")).removeprefix("chart-") for one in figures]


def test_static_chart_follows_the_theme(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, java_script_enabled=False)
    text = page.locator("#chart-throughput .still svg text").first
    colours = []
    for theme_ in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme_)
        colours.append(text.evaluate("one => getComputedStyle(one).fill"))
    assert colours == ["rgb(31, 35, 40)", "rgb(230, 232, 235)"]


def test_old_browser_shows_tables_and_explains_missing_charts(page_of_made: Path, chromium: Any) -> None:
    page = chromium.new_page()
    page.add_init_script("delete globalThis.DecompressionStream")
    page.goto(page_of_made.resolve().as_uri())
    assert "2023" in page.locator("#charts").inner_text()
    page.locator("details.all summary").press("Enter")
    assert page.locator("#results table:visible").count() == 6
    assert "throughput" in drawn_before(page)
    page.close()
