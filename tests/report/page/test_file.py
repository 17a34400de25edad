"""The page as a file: its downloads, its size, and harmless rendering of text from run files."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runfiles
from shell import COMMAND, TESTS, Shell, is_one_line

from dyno import results
from dyno.contracts.model import Tier
from dyno.host import installation
from dyno.report import export
from dyno.report.charts import vega
from dyno.report.page import build, payload
from dyno.report.tables.table import groups
from dyno.stats.summary import summarize

pytestmark = pytest.mark.usefixtures("processes")

MOST_BYTES = 2_000_000
PLACE = "#run=0&phase=read&tier=process"


def saved(page: Any, button: Any) -> tuple[str, bytes]:
    """Name and content of a downloaded file. Clicks again if no download starts: seen once, on a busy machine."""
    from playwright.sync_api import TimeoutError as NoDownload

    for timeout in (20_000, 60_000):
        try:
            with page.expect_download(timeout=timeout) as found:
                button.click()
            break
        except NoDownload:
            if timeout == 60_000:
                raise
    return found.value.suggested_filename, Path(found.value.path()).read_bytes()


# -- downloads --------------------------------------------------------------------------------------------------


@pytest.mark.claim("The page loads nothing from a network and runs no foreign script")
def test_downloads_match_run_file_and_exports(page_of_made: Path, made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    assert saved(page, page.get_by_role("button", name="made.json", exact=True)) == ("made.json", made.read_bytes())
    run = results.load(made)
    name, text = saved(page, page.get_by_role("button", name="made.csv"))
    assert (name, text.decode()) == ("made.csv", export.as_csv(export.cells(run)))
    name, text = saved(page, page.get_by_role("button", name="made-results.json"))
    assert (name, json.loads(text)) == ("made-results.json", json.loads(json.dumps(export.as_data(run))))


def test_chart_is_saved_as_svg_png_and_csv(page_of_made: Path, made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE, color_scheme="dark")
    box = page.locator("#chart-throughput")
    name, svg = saved(page, box.get_by_role("button", name="SVG"))
    assert name == "throughput-read-process.svg"
    words = " ".join(ET.fromstring(svg).itertext())
    assert "quick" in words and "even" in words
    name, png = saved(page, box.get_by_role("button", name="PNG"))
    assert name.endswith(".png") and png.startswith(b"\x89PNG")
    _, text = saved(page, box.get_by_role("button", name="CSV"))
    rows = list(csv.DictReader(io.StringIO(text.decode())))
    group = next(group for group in groups(results.load(made)) if (group.phase, group.tier) == ("read", Tier.PROCESS))
    medians = {row.name: row.summary.throughput.median for row in group.rows if row.summary.throughput}
    assert {row["engine"]: float(row["throughput"]) for row in rows}.items() <= medians.items()
    assert [(row["engine"], row["phase"]) for row in rows] == [(engine, "read") for engine in runfiles.ENGINES]


def test_saved_chart_keeps_phase_selected_at_click(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE)
    page.locator("#chart-throughput").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-throughput .live svg")
    with page.expect_download() as found:
        page.evaluate(
            """() => {
              document.querySelector("#chart-throughput button[data-save=svg]").click();
              const form = document.querySelector("#filters");
              form.elements.phase.value = "scan";
              form.dispatchEvent(new Event("change"));
            }"""
        )
    assert found.value.suggested_filename == "throughput-read-process.svg"


# -- size ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10 engines, 10 phases, 10 samples, each with a histogram of 5,000 operations and ten seconds of a series."""
    return runfiles.write(
        tmp_path_factory.mktemp("large") / "large.json",
        tiers={Tier.PROCESS: [f"engine{n}" for n in range(10)]},
        phases=[f"phase-{n}" for n in range(10)],
        samples=10,
        operations=5_000,
        seconds=10,
    )


def test_large_page_fits_two_megabytes_without_histograms(
    large: Path, report: Callable[..., Path], tmp_path: Path, visit: Callable[..., Any]
) -> None:
    assert large.stat().st_size > 2 * MOST_BYTES, "more than fits"
    page_file = report(large)
    assert page_file.stat().st_size <= MOST_BYTES
    page = visit(page_file)
    assert page.locator("#chart-size .live svg").count() == 0, "a chart is drawn when it is scrolled into view"
    page.locator("#chart-size").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-size .live svg")
    page.locator("#chart-latency").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-latency .live svg")
    assert page.locator("#downloads").inner_text().count("Without histograms and time series") == 1
    name, text = saved(page, page.get_by_role("button", name="large-without-histograms.json"))
    (tmp_path / name).write_bytes(text)
    whole = summarize(results.load(large))
    part = summarize(results.load(tmp_path / name))
    assert [row.throughput for row in whole] == [row.throughput for row in part]
    assert all(not sample.histogram and not sample.series for row in part for sample in row.samples)


def test_static_charts_are_small_with_unique_ids(page_of_made: Path) -> None:
    text = page_of_made.read_text()
    stills = re.findall(r'<div class="still".*?</div>', text, re.DOTALL)
    assert len(stills) == 6 and all(4_000 < len(one) <= 40_000 for one in stills)
    names = re.findall(r' id="([^"]+)"', text)
    assert len(names) == len(set(names))
    light = vega.config(dark=False)["axis"]
    assert not any(light[name] in one for one in stills for name in ("labelColor", "titleColor", "gridColor"))


def test_unchanged_chart_is_not_redrawn(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made, PLACE)
    page.locator("#chart-throughput").scroll_into_view_if_needed()
    page.wait_for_selector("#chart-throughput .live svg")
    page.wait_for_selector("#chart-ratios .live svg")
    page.evaluate("for (const one of document.querySelectorAll('.live svg')) one.dataset.old = 'yes'")
    page.locator("#filters [name='baseline']").select_option("even")
    page.wait_for_selector("#chart-ratios .live svg:not([data-old])")
    assert page.locator("#chart-throughput .live svg[data-old]").count() == 1


# -- harmful text -------------------------------------------------------------------------------------------------

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_markup_in_run_file_is_shown_as_text(
    tmp_path: Path, report: Callable[..., Path], visit: Callable[..., Any]
) -> None:
    name = f"engine:option={EVIL}"
    run = runfiles.write(
        tmp_path / "evil.json",
        tiers={Tier.PROCESS: ("quick", name, "failing")},
        params={"value": [1, EVIL]},
        errors={"failing": EVIL},
        caveat=EVIL,
        phases=("read", f"phase{EVIL}"),
    )
    page = visit(report(run), PLACE)
    for box in page.locator("figure:visible").all():
        box.scroll_into_view_if_needed()
    page.wait_for_selector("#chart-throughput .live svg")
    for button in page.locator("button[data-table]:visible").all():
        button.click()
    page.locator("#filters [name='p.value']").select_option(EVIL)
    page.locator("#filters [name='phase']").select_option(f"phase{EVIL}")
    assert page.locator("main img, main script").count() == 0
    assert name in page.locator("#overview thead").first.inner_text()
    page.locator("details.all summary").press("Enter")
    assert f"error: {EVIL}" in page.locator("#results").inner_text()
    assert name in page.locator("#chart-throughput .data").inner_text()


HARM = "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"


@pytest.mark.claim("Text from engines and files can't harm its reader")
def test_harmful_engine_output_is_shown_as_text(
    shell: Shell, report: Callable[..., Path], visit: Callable[..., Any]
) -> None:
    """The text comes from real trials: versions, settings, caveats, errors, facts, reports."""
    shell.plugins = [TESTS / "plugins" / "gossip"]
    engines = ("caveats=harmful+release=harmful+settings=harmful", "raises=harmful", "fails=harmful+prints=harmful")
    flags = ["-p", "records=300", "--phases", "rand-key", "--samples", "1", "--retries", "0"]
    talked = shell.dyno(
        "run", "records", "-e", ",".join(f"talker:{how}" for how in engines), *flags, "-o", shell.file
    )
    words = ("run", "fibs", "-e", "fibber:report=harmful", "-o", shell.home / "fibs.json")
    assert (talked.status, shell.dyno(*words).status) == (1, 0)
    page = visit(report(shell.file, shell.home / "fibs.json"))
    for box in page.locator("figure:visible").all():
        box.scroll_into_view_if_needed()
    assert page.locator("main img, main script").count() == 0
    found = page.locator("main").evaluate("main => main.textContent")
    # Markup is shown as text, and control characters as escape sequences.
    assert "<img src=x onerror=alert(1)>" in found and "\\x1b[31mred" in found
    assert re.findall(HARM, found) == []


@pytest.mark.claim("The page loads nothing from a network and runs no foreign script")
def test_security_policy_blocks_foreign_scripts_and_fetches(page_of_made: Path, chromium: Any) -> None:
    page = chromium.new_page()
    page.goto(page_of_made.resolve().as_uri())
    page.wait_for_selector("html.ready")
    page.evaluate(
        """async () => {
          const script = document.createElement('script');
          script.textContent = 'window.ran = true';
          document.body.append(script);
          const box = document.createElement('div');
          box.innerHTML = '<img src=x onerror="window.ran = true">';
          document.body.append(box);
          setTimeout('window.ran = true', 0);
          await new Promise((done) => setTimeout(done, 50));
          try { await fetch('data:text/plain,x'); window.fetched = true; } catch { }
        }"""
    )
    assert page.evaluate("[window.ran ?? null, window.fetched ?? null]") == [None, None]
    page.close()


def test_page_script_defines_no_globals(page_of_made: Path, visit: Callable[..., Any]) -> None:
    page = visit(page_of_made)
    own = page.evaluate(
        """() => {
          const frame = document.createElement('iframe');
          document.body.append(frame);
          const known = new Set(Object.getOwnPropertyNames(frame.contentWindow));
          frame.remove();
          return Object.getOwnPropertyNames(window).filter((name) => !known.has(name) && isNaN(name));
        }"""
    )
    # Vega sets this mark when it is loaded.
    assert [name for name in own if not name.startswith("VEGA")] == []


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return runfiles.write(tmp_path / "r.json", samples=3, operations=50)


def test_report_is_named_after_the_run_file(shell: Shell, small: Path) -> None:
    ended = shell.dyno("report", small.name)
    assert ended == (0, "", "Written to r.html\n")
    assert (shell.home / "r.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in shell.home.iterdir() if path.is_file()) == ["r.html", "r.json"]


def test_only_reports_are_replaced_without_overwrite(shell: Shell, small: Path) -> None:
    assert shell.dyno("report", small.name).status == 0
    assert shell.dyno("report", small.name).status == 0, "a report is replaced"
    (shell.home / "r.html").write_text("<!doctype html>\n<title>Mine</title>\n")
    ended = shell.dyno("report", small.name)
    assert ended.status == 2 and "--overwrite" in ended.err and is_one_line(ended.err)
    assert "Mine" in (shell.home / "r.html").read_text()
    assert shell.dyno("report", small.name, "--overwrite").status == 0
    assert "Mine" not in (shell.home / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r.json", "-o", "r.json"], "is not a report"),
        (["r.json", "-o", "r.json", "--overwrite"], "is a run file"),
        (["r.json", "-o", "./r.json", "--overwrite"], "is a run file"),
        (["r.json", "-o", "none/r.html"], "can't write none/r.html"),
        (["r.json", "-o", "."], "is a directory"),
        (["r.json", "-o", ".", "--overwrite"], "is a directory"),
        (["none.json"], "can't read none.json"),
        ([], "Missing argument"),
    ],
)
def test_report_usage_error_is_one_line(shell: Shell, small: Path, words: list[str], said: str) -> None:
    before = small.read_bytes()
    ended = shell.dyno("report", *words)
    assert ended.status == 2 and said in ended.err and is_one_line(ended.err), ended
    assert small.read_bytes() == before


@pytest.mark.parametrize("library", ["jinja2", "vl_convert"])
def test_missing_library_error_shows_install_command(shell: Shell, small: Path, library: str) -> None:
    without = f"import sys; sys.modules[{library!r}] = None; from dyno.cli import main; main()"
    ended = shell.sh(COMMAND[0], "-c", without, "report", small)
    assert ended.status == 2 and installation.extra_command("report") in ended.err and is_one_line(ended.err)
    assert not (shell.home / "r.html").exists()


def test_report_of_incomplete_run_warns(shell: Shell, clients: Path) -> None:
    ended = shell.dyno("report", clients, "-o", "c.html")
    assert ended.status == 0 and "not complete" in ended.err


def test_page_build_is_deterministic(small: Path) -> None:
    run = results.load(small)
    assert build.build([run]) == build.build([run])


def test_command_on_page_reproduces_plan_and_cells(shell: Shell) -> None:
    """The printed command makes the same plan and the same cells."""
    words = [
        *("-e", "sqlite:journal_mode=delete+cache_mib=8,memory", "-p", "records=50,60", "-p", "txn=all"),
        *("--phases", "rand-key", "--rate", "5000", "--samples", "1", "--duration", "0.02", "--seed", "7"),
    ]
    assert shell.dyno("run", "records", *words, "-o", "a.json").status == 0
    command = shlex.split(" ".join(payload.command(results.load(shell.home / "a.json"))))
    assert command[0] == "dyno"
    assert shell.dyno(*command[1:], "-o", "b.json").status == 0
    first, second = (results.load(shell.home / name) for name in ("a.json", "b.json"))
    assert first.plan == second.plan
    cells = [sorted((cell.asked, cell.tier, repr(cell.params)) for cell in run.cells) for run in (first, second)]
    assert cells[0] == cells[1]
