"""Tests that text from a run file never becomes a formula, an expression, markup or a label in any output."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import markdown_it
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from shell import TESTS, Shell

from dyno.report.formats import FORMATS

WHOLE = TESTS / "data" / "run-schema-3.json"


def rewritten(target: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], None]) -> Path:
    """Writes a copy of the run file with changed content; returns its path."""
    header, *trials = map(json.loads, WHOLE.read_text().splitlines())
    change(header, trials)
    lines = (json.dumps(line, separators=(",", ":")) for line in (header, *trials))
    target.write_text("".join(f"{line}\n" for line in lines))
    return target


@pytest.mark.parametrize("live", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "＝1+1", '=HYPERLINK("http://x")'])
def test_no_cell_of_a_csv_is_a_formula(live: str, shell: Shell) -> None:
    def change(header: dict[str, Any], trials: list[dict[str, Any]]) -> None:
        header["cells"][0]["engine"] = live
        for at, cell in enumerate(header["cells"]):
            cell["params"]["mix"] = live if at else -5
        for trial in trials:
            trial |= {"version": live, "facts": {}}
            trial["caveats"] = [{"code": live, "text": "x"}, {"code": "b", "text": "x"}]
            for sample in trial["samples"]:
                sample["facts"] = {"delta": -7, live: live}

    run = rewritten(shell.file, change)
    for flags in ((), ("--samples",)):
        written = shell.dyno("show", run, "--csv", *flags)
        assert written.status == 0, written.err
        head, *rows = csv.reader(io.StringIO(written.out))
        cells = [part for row in (head, *rows) for cell in row for part in (cell, *cell.split(";"))]
        assert not [cell for cell in cells if cell[:1] in tuple("=+@＝") or cell.startswith("-1+")]
        assert f"'{live}" in cells, "and it is still there"
        # Negative numbers stay numbers, although they begin like a formula.
        values = {row[head.index("fact_delta")] for row in rows} - {""}
        assert set(map(float, values)) == {-7.0}
        assert "-5" in {row[head.index("param_mix")] for row in rows}


NASTY = ["a'b", 'a\\"b`${x}', "</script>\\'|b\\"]


@pytest.mark.parametrize("text", NASTY)
def test_run_file_text_is_never_evaluated(text: str, shell: Shell) -> None:
    """The text stays plain text in charts, on pages and in the formats of other tools."""

    def change(header: dict[str, Any], trials: list[dict[str, Any]]) -> None:
        axis = {"of": "param", "name": text, "title": text}
        curve = {"name": f"x{text}", "title": text, "reading": text, "x": axis, "line": text, "point": text}
        header["charts"] = [{**curve, "y": {"of": "metric", "name": "throughput"}}]
        header["plan"]["phases"] = ["rand-key"]
        header["plan"]["suite"] = text
        for at, cell in enumerate(header["cells"]):
            cell["suite"], cell["params"][text] = text, at % 2
            cell["engine"] = cell["engine"] + text
        for trial in trials:
            trial["version"] = text
            trial["caveats"] = [{"code": text, "text": text}]
            trial["samples"] = [sample for sample in trial["samples"] if sample["phase"] == "rand-key"]
            for sample in trial["samples"]:
                sample["unit"], sample["facts"] = text, {text: 1}
        stacks = {"frames": [[text, text], [f"lib{text}", "f"]], "stacks": [[0, 1]], "counts": [7]}
        phase = {"phase": "rand-key", "items": 1, "client": stacks, "system_calls": {text: 1}}
        about = {"cell": 0, "outcome": "ok", "started": trials[0]["started"], "duration_ns": 1}
        trials.append({"kind": "profile", **about, "phases": [phase], "missing": [text]})

    run = rewritten(shell.file, change)
    for words in (
        ("show", run),
        ("show", run, "--all"),
        ("show", run, "--markdown"),
        ("why", run),
        ("plot", run, "-o", "charts/"),
        ("plot", run, "--chart", f"sweep:{text}", "-o", "sweep.svg"),
        ("report", run, "-o", "r.html"),
        ("site", run, "-o", "site"),
        *(("export", run, "--format", name, "-o", f"out.{name}") for name in FORMATS),
    ):
        ended = shell.dyno(*words)
        assert ended.status == 0, (words, ended.err)
    pictures = [*(shell.home / "charts").iterdir(), shell.home / "sweep.svg"]
    said = ["".join(ElementTree.parse(path).getroot().itertext()) for path in pictures]
    # The text is unchanged: it was not evaluated, and escapes in it have no effect.
    assert any(f"{text}/s" in each for each in said)
    ElementTree.parse(shell.home / "out.junit")
    families = list(text_string_to_metric_families((shell.home / "out.openmetrics").read_text()))
    assert {sample.labels["unit"] for family in families for sample in family.samples} == {text}


@pytest.mark.parametrize(
    "text", ["\\[a](http://x)", "\\<img src=x>", "**a**", "`a` [b](http://x)", "a``b <i>", "# a", "a\\|b"]
)
def test_run_file_text_is_escaped_in_markdown(text: str, shell: Shell) -> None:
    def change(header: dict[str, Any], trials: list[dict[str, Any]]) -> None:
        header["plan"]["suite"] = text
        for cell in header["cells"]:
            cell["suite"], cell["engine"], cell["params"]["mix"] = text, f"{text} {cell['engine']}", text

    run = rewritten(shell.file, change)
    for words in (("show", run, "--markdown"), ("compare", run, "--markdown")):
        ended = shell.dyno(*words)
        assert ended.status == 0, ended.err
        html = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render(ended.out)
        found = set(re.findall(r"<(\w+)", html))
        assert not found & {"a", "img", "i"}, html
        plain = re.sub(r"<[^>]+>", "", html)
        assert unescape(plain).replace("\u00a0", " ").count(text) > 1
