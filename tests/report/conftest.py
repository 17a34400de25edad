"""Fixtures that open pages of `dyno report` in Debian's Chromium. Fail the test if a page requests anything or logs a
message.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import runfiles
from shell import Shell

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 60_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        why = "Chromium is not installed: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{why}, and CI must test it")
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a report. The test fails if a page has requested anything or logged a message."""
    contexts, complaints = [], []

    def watch(page: Any, file: Path) -> None:
        own = file.resolve().as_uri()

        def asked(request: Any) -> None:
            if not request.url.startswith((own, "blob:", "data:")):
                complaints.append(f"asks for {request.url}")

        page.on("request", asked)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))

    def open_(file: Path, address: str = "", width: int = 1_200, **context: Any) -> Any:
        made = chromium.new_context(viewport={"width": width, "height": 900}, offline=True, **context)
        contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(WAIT_MS)
        watch(page, file)
        page.goto(file.resolve().as_uri() + address)
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html.ready")
        return page

    open_.complaints = complaints  # type: ignore[attr-defined]
    yield open_
    for made in contexts:
        made.close()
    assert complaints == []


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run file of most tests: three engines at one tier and a fourth at another; one bulk phase and two other
    phases.
    """
    return runfiles.write(tmp_path_factory.mktemp("made") / "made.json")


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An incomplete run with one, two and four clients, and too few blocks for a ratio."""
    path = tmp_path_factory.mktemp("clients") / "clients.json"
    return runfiles.write(path, params={"clients": [1, 2, 4]}, samples=3, blocks=2)


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that builds a report of run files by `dyno report`."""

    def make(*runs: Path, name: str = "report.html") -> Path:
        ended = Shell(tmp_path, tmp_path / "work").dyno("report", *runs, "-o", tmp_path / name)
        assert ended.status == 0, ended.err
        return tmp_path / name

    return make


@pytest.fixture(scope="session")
def page_of_made(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of `made`. Tests must not change it."""
    place = tmp_path_factory.mktemp("page")
    ended = Shell(place, place / "work").dyno("report", made, "-o", place / "made.html")
    assert ended.status == 0, ended.err
    return place / "made.html"
