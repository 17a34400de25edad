"""Tests that the gate in docs/reference/ci.md and examples/ci has valid commands and a valid workflow."""

from __future__ import annotations

import re
import shlex
import textwrap
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from documentation import ROOT, blocks, named, read, sections
from facts import parse

from dyno.cli import compare
from dyno.runner import plan, plan_file
from dyno.stats.estimate import center, two_sided
from dyno.stats.metric import THROUGHPUT
from dyno.stats.two_runs import Between, gate
from dyno.stats.verdict import CONFIDENCE

CI = ROOT / "examples" / "ci"
WORKFLOW = (CI / "dyno.yml").read_text()


def scripts(text: str) -> list[str]:
    """The `run:` values of a workflow, of one line or several, without their indentation."""
    values = []
    for line in re.finditer(r"^( *)(?:- )?run: (.*)\n((?:\1  .*\n|\n)*)", text, re.MULTILINE):
        body = line[3] if line[2] == "|" else line[2]
        values.append(textwrap.dedent(body).strip())
    return values


def commands(text: str) -> list[list[str]]:
    """The words after dyno (in any environment) in shell lines, without shell operators."""
    parsed = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        at = [place for place, word in enumerate(words) if re.search(r"(^|bin/)dyno$", word)]
        if at:
            rest = words[at[0] + 1 :]
            end = next((place for place, word in enumerate(rest) if word in (">", ">>", "||", "|", "&&")), len(rest))
            parsed.append(rest[:end])
    return parsed


def test_commands_of_the_workflow_are_valid() -> None:
    lines = [words for script in scripts(WORKFLOW) for words in commands(script)]
    assert [words[0] for words in lines] == ["run", "check", "check", "report"]
    for words in lines:
        parse(words)


def test_ci_page_quotes_example_workflow_and_plan() -> None:
    shell = [block.text.strip() for block in blocks(read("reference/ci.md")) if block.language == "sh"]
    quoted = [text for text in shell if not text.startswith(("dyno ", "pytest "))]
    assert quoted == scripts(WORKFLOW)
    assert [block.text for block in blocks(read("reference/ci.md")) if block.language == "toml"] == [
        (CI / "plan.toml").read_text()
    ]


def test_example_workflow_alternates_sides_for_all_samples() -> None:
    planned = plan.make(plan_file.read(CI / "plan.toml"))
    loops = [re.findall(r"^ *for \w+ in (.*); do$", script, re.MULTILINE) for script in scripts(WORKFLOW)]
    rounds, sides = (words.split() for words in next(found for found in loops if len(found) == 2))
    assert {side: len(rounds) * sides.count(side) for side in sides} == dict.fromkeys(
        ("base", "head"), planned.samples
    )
    assert all(one != other for one, other in zip(sides[::2], sides[1::2], strict=True))


def test_statuses_of_the_gate_are_documented() -> None:
    assert set(named(sections(read("reference/ci.md"))["What it says"])) == {
        "0",
        str(compare.FAILED),
        "2",
        str(compare.NOTHING),
    }


@pytest.mark.claim("A slowdown beyond the margin by the stated noise is found nine times in ten")
@pytest.mark.parametrize(("rows", "reaches"), [(1, 1.5), (20, 2.5)])
def test_gate_detects_documented_slowdown_nine_times_in_ten(rows: int, reaches: float) -> None:
    """Checks the documented rule of thumb for a margin. One row is slower, the others are unchanged."""
    random, margin, samples, spread, repeats = np.random.default_rng(1), 0.05, 10, 0.04, 400
    noise = two_sided(CONFIDENCE, samples - 1) * spread / samples**0.5
    slower = np.log1p(-margin) - reaches * noise
    failures = 0
    for _ in range(repeats):
        centers = [slower, *[0.0] * (rows - 1)]
        ratios = [np.exp(random.normal(at, spread, samples)).tolist() for at in centers]
        seen = SimpleNamespace(ratio=1.0, blocks=samples)
        changes = [SimpleNamespace(metric=THROUGHPUT, center=center(values), verdict=seen) for values in ratios]
        judged = gate(cast(Between, SimpleNamespace(changes=changes, paired=True)), margin)
        failures += judged[0].state == "slower"
    assert failures / repeats >= 0.87
