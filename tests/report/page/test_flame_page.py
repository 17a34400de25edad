"""Flame graphs on the page, in a browser without network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates, written
from profiles import with_profiles
from shell import Shell

pytestmark = pytest.mark.usefixtures("processes")

HOSTILE = "f<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1_400, 390])
def test_page_draws_flame_graphs(
    width: int, scheme: str, shell: Shell, tmp_path: Path, visit: Callable[..., Any]
) -> None:
    rows = (a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), (a_cell("sqlite"), {"read": [500.0, 505.0, 495.0]})
    fast = {"lib`main;lib`get": 60, f"lib`main;lib`{HOSTILE}": 40}
    slow = {"lib`main;lib`get": 20, "lib`main;[kernel]`read": 80}
    run = with_profiles(of_rates(*rows, phases=["read"]), "read", [fast, slow])
    file = written(run, tmp_path / "r.json")
    assert shell.dyno("report", file, "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html", width=width, color_scheme=scheme)
    for name, engines in (("flame", ["lmdb", "sqlite"]), ("flame-difference", ["sqlite"])):
        figure = page.locator(f"#chart-{name}")
        figure.scroll_into_view_if_needed()
        page.wait_for_selector(f"#chart-{name} .live svg")
        texts = figure.locator(".live svg text").all_text_contents()
        assert {"main", "get", *engines} <= set(texts), texts
        spoken = figure.locator(".live svg [aria-label]").evaluate_all(
            "all => all.map(one => one.getAttribute('aria-label'))"
        )
        assert any(text and text.startswith("sqlite, read, 80.0%") for text in spoken), spoken
        right = figure.locator(".live svg").evaluate("svg => svg.getBoundingClientRect().right")
        assert right <= width
    figure.get_by_role("button", name="Table").click()
    assert "80 % [kernel]" in figure.locator(".data").inner_text()


def test_page_without_profiles_has_no_flame_graph(shell: Shell, tmp_path: Path, visit: Callable[..., Any]) -> None:
    run = of_rates((a_cell("lmdb"), {"read": [1000.0, 1010.0, 990.0]}), phases=["read"])
    assert shell.dyno("report", written(run, tmp_path / "r.json"), "-o", tmp_path / "r.html").status == 0
    page = visit(tmp_path / "r.html")
    assert page.locator("#chart-flame").is_hidden()
