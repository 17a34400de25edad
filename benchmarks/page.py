"""Size of a large run's page, time to build it, and time until a browser shows it.

    python benchmarks/page.py [--cells N] [--engines N] [--phases N] [--samples N] [--repeats N] [--width PIXELS]

`dyno report` builds the page of a made-up run of the shape that Dyno writes (see `load.py`), and a headless Chromium
without a network opens it. Three times are measured: until the first paint (`performance.getEntriesByType('paint')`),
when the answer and its picture are visible; until the whole text is there; and until the interactive charts in view
are drawn. The figures are medians over repeats, each in its own browser context. The first visit warms the browser up
and does not count. Exit status 1: a page of over 2 MB, or a first paint after 300 ms or more; 3: no browser is
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import load

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MOST_BYTES = 2_000_000
MOST_PAINT_MS = 300
# Charts are drawn when they are scrolled into view, so only visible charts must be there.
READY = "() => document.documentElement.classList.contains('ready') && document.querySelector('figure svg') !== null"
NAVIGATION = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
PAINT = "() => performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime"


def visited(browser: Any, page: Path, width: int) -> tuple[float, float, float]:
    """Milliseconds until the first paint, until the whole text is there, and until the charts are drawn."""
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    tab = context.new_page()
    tab.goto(page.resolve().as_uri())
    tab.wait_for_function(PAINTED)
    paint, text = tab.evaluate(PAINT), tab.evaluate(NAVIGATION)
    tab.close()
    tab = context.new_page()
    tab.goto(page.resolve().as_uri() + "#charts")
    tab.wait_for_function(READY)
    found = paint, text, tab.evaluate("() => performance.now()")
    context.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The page of a large run, and how soon a browser shows it.")
    parser.add_argument("--cells", type=int, default=1_000, metavar="N", help="default: 1000")
    parser.add_argument("--engines", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--phases", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--samples", type=int, default=3, metavar="N", help="default: 3")
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--width", type=int, default=1_400, metavar="PIXELS", help="of the window; default: 1400")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None or importlib.util.find_spec("playwright") is None:
        print("page.py: needs Chromium and Playwright: apt-get install chromium; make setup", file=sys.stderr)
        return 3
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(dir=".") as place:
        run, page = Path(place) / "run.json", Path(place) / "run.html"
        load.write(run, replace(load.wide(options.cells, options.engines, options.phases), samples=options.samples))
        began = perf_counter()
        command = [sys.executable, "-m", "dyno", "report", str(run), "-o", str(page)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        took, size = perf_counter() - began, page.stat().st_size
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            visited(browser, page, options.width)
            figures = [visited(browser, page, options.width) for _ in range(options.repeats)]
            browser.close()
        paint, text, ready = (statistics.median(column) for column in zip(*figures, strict=True))
        print(
            f"{options.cells:,} cells of {options.engines} engines, "
            f"{options.phases} phases, {options.samples} samples"
        )
        print(f"run file     {run.stat().st_size / 1e6:>8.2f} MB")
        print(f"page         {size / 1e6:>8.2f} MB, made in {took:.1f} s")
        print(f"first paint  {paint:>8.0f} ms")
        print(f"its text     {text:>8.0f} ms")
        print(f"charts drawn {ready:>8.0f} ms")
    if size <= MOST_BYTES and paint < MOST_PAINT_MS:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
