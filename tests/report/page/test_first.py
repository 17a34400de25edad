"""The first screen: answer and picture are visible without scrolling or JavaScript, on desks and telephones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runfiles
from runfiles import ENGINES

from dyno.contracts.model import Tier

pytestmark = pytest.mark.usefixtures("processes")

SIZES = {"desk": (1_400, 900), "telephone": (390, 844)}
BARS = ".relative ol:first-of-type li"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_answer_and_bars_are_visible_without_scrolling(
    page_of_made: Path, visit: Callable[..., Any], script: bool
) -> None:
    page = visit(page_of_made, java_script_enabled=script)
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for wanted in (".headline strong", f"{BARS}:last-child .bar"):
            box = page.locator(wanted).first.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height, wanted
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
        answer, picture = (page.locator(wanted).first.bounding_box() for wanted in (".headline", ".relative"))
        if size == "desk":
            assert picture["x"] > answer["x"] + answer["width"] and picture["y"] < answer["y"] + answer["height"]
        else:
            assert picture["y"] >= answer["y"] + answer["height"]


def test_bar_lengths_match_figures_and_fastest_is_marked(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    rows = page.locator(BARS)
    assert [row.locator("b").inner_text() for row in rows.all()] == list(ENGINES)
    assert rows.locator(".mark").all_inner_texts() == ["fastest"] and rows.first.locator(".mark").count() == 1
    lengths = [row.locator("rect").bounding_box()["width"] for row in rows.all()]
    figures = [float(row.locator(".figure").inner_text().split()[0]) for row in rows.all()]
    assert [length / lengths[0] for length in lengths] == pytest.approx(figures, abs=0.01)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_phase_bars_match_overview_order_and_shares(
    page_of_made: Path, visit: Callable[..., Any], script: bool
) -> None:
    page = visit(page_of_made, java_script_enabled=script)
    pictures = page.locator(".multiples > div")
    phases = pictures.locator("h4 a").all_inner_texts()
    assert len(phases) == len(set(phases)) > 1
    overview = page.locator("table.matrix").first
    assert [phase for phase in overview.locator("tbody a.phase").all_inner_texts() if phase in phases] == phases
    for picture in pictures.all():
        assert picture.locator("b").all_inner_texts() == overview.locator("thead th.number").all_inner_texts()
    # The bars and the shades of the table's cells show the same shares of the fastest engine.
    for picture in pictures.all():
        row = overview.locator("tr", has=page.locator(f"a.phase:text-is('{picture.locator('h4 a').inner_text()}')"))
        shares = [
            float(str(cell.get_attribute("style")).removeprefix("--share: ").rstrip("%"))
            for cell in row.locator("td").all()
        ]
        widths = [bar.bounding_box()["width"] for bar in picture.locator("rect").all()]
        assert [100 * width / max(widths) for width in widths] == pytest.approx(shares, abs=1)


def test_phone_shows_names_figures_and_verdicts_uncut(
    report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    width = 360
    engines = ["short", *(f"engine-with-a-long-name-{n}:an_option=a-long-value" for n in range(3))]
    run = runfiles.write(tmp_path / "wide.json", tiers={Tier.PROCESS: engines})
    page = visit(report(run), width=width)
    cut = page.locator(".relative b, .relative span").evaluate_all(
        "(all, width) => all.filter(one => one.getBoundingClientRect().right > width"
        " || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline').length",
        width,
    )
    assert cut == 0 and page.locator(f"{BARS} .said").count() == 3


@pytest.mark.parametrize("phase", ["read", "scan"])
def test_phone_shows_chart_texts_uncut(page_of_made: Path, visit: Callable[..., Any], phase: str) -> None:
    page = visit(page_of_made, f"#run=0&phase={phase}&tier=process", width=390)
    for box in page.locator("figure:visible").all():
        box.scroll_into_view_if_needed()
        page.wait_for_function("box => box.querySelector('.live svg')", arg=box.element_handle())
    texts = page.locator(".live svg text").evaluate_all(
        "all => all.filter((one) => one.textContent && getComputedStyle(one).opacity !== '0')"
        ".map((one) => [one.textContent, one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    )
    assert [text for text, left, right in texts if left < 0 or right > 390] == []
    shown = [text for text, _, _ in texts]
    assert all(shown.count(name) >= 3 for name in ENGINES[1:]), shown
    assert not any(text.endswith("…") for text in shown)
    sideways = page.locator(".plot").evaluate_all("all => all.map((one) => one.scrollWidth - one.clientWidth)")
    assert set(sideways) == {0}
