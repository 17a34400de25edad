"""The page of a large run: how large it is, how long it takes to make, and how soon a browser has it ready.

    python benchmarks/page.py [--engines N] [--phases N] [--samples N] [--repeats N]

A made-up run of the shape that Dyno writes (see `load.py`), its page by `dyno report`, and that page in a headless
Chromium without a network: until its text is there, until the first paint, and until its charts are drawn. The
figures are medians over repeats, each in a browser context of its own. Exit status 1: a page of over 2 MB.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import load

MOST_BYTES = 2_000_000
# Charts that are out of sight are drawn when they are scrolled to: those in sight must be there.
READY = "() => document.documentElement.classList.contains('ready') && document.querySelector('figure svg') !== null"
NAVIGATION = "() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def visited(browser: Any, page: Path) -> tuple[float, float, float]:
    """Milliseconds to the text, to the first paint, and until the charts are drawn that are in sight."""
    context = browser.new_context(viewport={"width": 1_200, "height": 900}, offline=True)
    tab = context.new_page()
    tab.goto(page.resolve().as_uri() + "#charts")
    tab.wait_for_function(READY)
    ready = tab.evaluate("() => performance.now()")
    found = tab.evaluate(NAVIGATION), tab.evaluate(PAINT), ready
    context.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The page of a large run, and how soon a browser has it ready.")
    parser.add_argument("--engines", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--phases", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--samples", type=int, default=10, metavar="N", help="default: 10")
    parser.add_argument("--operations", type=int, default=20_000, metavar="N", help="of a sample; default: 20000")
    parser.add_argument("--repeats", type=int, default=7, metavar="N", help="default: 7")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    asked.cells = asked.engines
    with tempfile.TemporaryDirectory(dir=".") as place:
        run, page = Path(place) / "run.json", Path(place) / "run.html"
        load.write(run, asked)
        began = perf_counter()
        command = [sys.executable, "-m", "dyno", "report", str(run), "-o", str(page)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        took, size = perf_counter() - began, page.stat().st_size
        with sync_playwright() as playwright:
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            figures = [visited(browser, page) for _ in range(asked.repeats)]
            browser.close()
        text, paint, ready = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"{asked.engines} engines, {asked.phases} phases, {asked.samples} samples")
        print(f"run file     {run.stat().st_size / 1e6:>8.2f} MB")
        print(f"page         {size / 1e6:>8.2f} MB, made in {took:.1f} s")
        print(f"its text     {text:>8.0f} ms")
        print(f"first paint  {paint:>8.0f} ms")
        print(f"charts drawn {ready:>8.0f} ms")
    return 0 if size <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
