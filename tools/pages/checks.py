"""Doubts, metrics, self-tests and claims, from the tables in the code and from markers on the tests."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from pages.text import ROOT, code, sentence, table

from dyno.contracts.model import Tier
from dyno.selftest import checks
from dyno.stats import doubts, machine
from dyno.stats.metric import METRICS

TESTS = ROOT / "tests"
GROUPS = {
    "Measuring and checking": ("measure", "contracts", "suites", "host"),
    "Trials, runs and files": ("runner", "results", "bundles", "machines", "servers", "published"),
    "Engines and tiers": ("engines",),
    "Crashes and power cuts": ("crash",),
    "Statistics and verdicts": ("stats",),
    "Self-tests": ("selftest",),
    "Pages": ("report",),
    "Documentation": ("docs",),
    "Commands and the library": ("cli", "install", "library"),
}
"""Headings, each with its folders of tests; a claim stands under that of its first test. The last has all others."""


def meanings(lines: dict[str, str]) -> list[tuple[str, str]]:
    """Rows of a table whose texts begin with their code."""
    return [(code(name), sentence(text.removeprefix(f"{name}: "))) for name, text in lines.items()]


def row_doubts() -> str:
    return table(("Doubt", "Meaning"), meanings(doubts.MEANINGS))


def machine_doubts() -> str:
    rows = [(code(name), sentence(text), remedy or "") for name, (text, remedy) in machine.FINDINGS.items()]
    return table(("Finding", "Meaning", "Remedy"), rows)


def tiers() -> str:
    return table(("Tier", "An acknowledged write is"), [(code(tier.value), tier.meaning) for tier in Tier])


def metrics() -> str:
    return table(("Metric", "What it is"), [(code(name), metric.title) for name, metric in METRICS.items()])


def self_tests() -> str:
    return table(("Check", "What it proves"), [(code(check.name), sentence(check.guards)) for check in checks()])


def claims() -> str:
    """A table for each group of claims: the claim, and the tests that hold it."""
    known: dict[str, list[tuple[Path, str]]] = {}
    for path in sorted(TESTS.rglob("test_*.py"), key=lambda path: (group(path), path)):
        for claim, name in claims_of(path):
            known.setdefault(claim, []).append((path, name))
    text = ""
    for number, title in enumerate(GROUPS):
        rows = [
            (claim, "<br>".join(f"`{path.relative_to(ROOT)}::{name}`" for path, name in tests))
            for claim, tests in sorted(known.items())
            if group(tests[0][0]) == number
        ]
        if rows:
            text += f"## {title}\n\n{table(('Claim', 'Tests'), rows)}\n\n"
    return text


def group(path: Path) -> int:
    """Position of the heading for a file of tests."""
    folder = path.relative_to(TESTS).parts[0]
    positions = (number for number, folders in enumerate(GROUPS.values()) if folder in folders)
    return next(positions, len(GROUPS) - 1)


def claims_of(path: Path) -> Iterator[tuple[str, str]]:
    """The claims in a file of tests, each with the test's name. A test that is expected to fail can't hold any."""
    text = path.read_text(encoding="utf-8")
    if "pytest.mark.claim(" not in text:
        return
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        marks = [each for each in node.decorator_list if ast.unparse(each).startswith("pytest.mark.")]
        claimed = [mark for mark in marks if ast.unparse(mark).startswith("pytest.mark.claim(")]
        if claimed and any(ast.unparse(mark).startswith("pytest.mark.xfail") for mark in marks):
            raise SystemExit(f"{path}: {node.name} is expected to fail, so it can't hold a claim")
        for mark in claimed:
            assert isinstance(mark, ast.Call)
            yield str(ast.literal_eval(mark.args[0])), node.name


BLOCKS: dict[str, Callable[..., str]] = {
    "doubts": row_doubts,
    "findings": machine_doubts,
    "tiers": tiers,
    "metrics": metrics,
    "self-tests": self_tests,
    "claims": claims,
}
