"""Fixtures that open pages of `dyno report` in Debian's Chromium. Fail the test if a page requests anything or logs a
message.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import runfiles
from shell import Shell

from dyno.report.page import payload

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
        # Without the process that emulates a graphics card.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Tabs:
    """Tabs of Chromium, which tests use one after the other: loading a page in a new one takes twice as long."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._idle: dict[str, list[Any]] = {}
        self._kinds: dict[Any, str] = {}

    def lend(self, width: int, scheme: str, **context: Any) -> Any:
        """Returns an empty tab without stored values."""
        kind = repr(sorted(context.items()))
        idle = self._idle.setdefault(kind, [])
        if idle:
            tab = idle.pop()
        else:
            tab = self._browser.new_context(offline=True, **context).new_page()
            tab.set_default_timeout(WAIT_MS)
            self._kinds[tab] = kind
        tab.set_viewport_size({"width": width, "height": 900})
        tab.emulate_media(media="screen", color_scheme=scheme)
        return tab

    def give_back(self, tab: Any) -> None:
        if tab.url != "about:blank":
            tab.evaluate("localStorage.clear()")
            tab.goto("about:blank")
        self._idle[self._kinds[tab]].append(tab)


@pytest.fixture(scope="session")
def tabs(chromium: Any) -> Tabs:
    return Tabs(chromium)


@pytest.fixture
def browse(tabs: Tabs) -> Iterator[Callable[..., Any]]:
    """Opens a page whose files have an address that begins with `own`. The test fails if a page has requested
    anything else or logged a message.
    """
    complaints: list[str] = []
    watched: list[tuple[Any, str, Callable[[Any], None]]] = []

    def open_page(own: str, address: str, width: int, color_scheme: str = "light", **context: Any) -> Any:
        def check_request(request: Any) -> None:
            if not request.url.startswith((own, "blob:", "data:")):
                complaints.append(f"requests {request.url}")

        page = tabs.lend(width, color_scheme, **context)
        for event, handler in (
            ("request", check_request),
            ("console", lambda message: complaints.append(f"{message.type}: {message.text}")),
            ("pageerror", lambda error: complaints.append(f"error: {error}")),
            ("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}")),
        ):
            page.on(event, handler)
            watched.append((page, event, handler))
        page.goto(own + address)
        if context.get("java_script_enabled", True):
            page.wait_for_selector("html.ready", state="attached")
        return page

    yield open_page
    for page, event, handler in watched:
        page.remove_listener(event, handler)
    for page in dict.fromkeys(page for page, _, _ in watched):
        tabs.give_back(page)
    assert complaints == []


@pytest.fixture
def visit(browse: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a report."""

    def open_report(file: Path, address: str = "", width: int = 1_200, **context: Any) -> Any:
        return browse(file.resolve().as_uri(), address, width, **context)

    return open_report


@pytest.fixture
def tour(browse: Callable[..., Any]) -> Callable[..., Any]:
    """Opens pages of a site."""

    def open_site(site: Path, page: str = "index.html", width: int = 1_280, **context: Any) -> Any:
        return browse(f"{site.resolve().as_uri()}/", page, width, **context)

    return open_site


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


def build_report(place: Path, *runs: Path) -> Path:
    """Runs `dyno report`."""
    ended = Shell(place, place / "work").dyno("report", *runs, "-o", place / "report.html")
    assert ended.status == 0, ended.err
    return place / "report.html"


@pytest.fixture(scope="module")
def without_static_charts() -> Iterator[None]:
    """Leaves the charts that need no JavaScript out of pages: drawing them takes four fifths of a build."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "stills", lambda *_: {})
        yield


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that builds a report of run files."""
    return partial(build_report, tmp_path)


@pytest.fixture(scope="session")
def page_of_made(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of `made`. Tests must not change it."""
    return build_report(tmp_path_factory.mktemp("page"), made)


@pytest.fixture(scope="session")
def page_of_clients(clients: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of `clients`. Tests must not change it."""
    return build_report(tmp_path_factory.mktemp("page"), clients)
