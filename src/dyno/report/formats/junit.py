"""JUnit XML: a test case for each row of a run, or for each row that a gate judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

from dyno.contracts.sanitize import sanitize
from dyno.report.tables import units
from dyno.report.tables.notes import absent
from dyno.report.tables.table import named_rows
from dyno.results import Run


class Case(NamedTuple):
    group: str
    name: str
    seconds: float = 0.0
    failure: str | None = None
    skipped: str | None = None
    output: str = ""


def text(run: Run) -> str:
    """Returns a run's test cases. A row without a number fails; a phase that makes no sense for an engine is
    skipped."""
    suite, cases = str(run.plan["suite"]), list[Case]()
    for name, row in named_rows(run):
        output = ""
        if (rate := row.throughput) is not None:
            output = f"{units.rate(rate.median)} {row.unit}/s, 95 % {units.interval(rate.low, rate.high)}"
        seconds = (row.elapsed_ns or 0) / 1e9
        cases.append(Case(f"{row.cell.suite}.{row.phase}", name, seconds, row.why, output=output))
    cases += [Case(suite, line, skipped="not measured") for line in absent(run)]
    return _document(f"dyno {suite}", cases)


def gated(data: Mapping[str, Any], strict: bool = False) -> str:
    """Returns the test cases of a gate, from the JSON of `dyno check`. A row fails if it is slower than the margin
    allows, or has lost its number. An unclear row is skipped, or with `strict` fails."""
    cases = []
    for row in [*data["changes"], *data["lost"]]:
        params = [f"{name}={value}" for name, value in row["params"].items()]
        name = "/".join([row["phase"], row["engine"], *params, *filter(None, [row["tier"]])])
        failure: str | None = f"no number now: {row.get('why')}"
        skipped, output = None, ""
        if "state" in row:
            unclear = row["text"] if row["state"] == "unclear" else None
            failure = row["text"] if row["state"] == "slower" else unclear if strict else None
            skipped = None if strict else unclear
            output = f"{row['metric']}: {row['text']}"
        cases.append(Case(f"dyno.{row['phase']}", name, 0.0, failure, skipped, output))
    return _document("dyno check", cases)


def _document(name: str, cases: list[Case]) -> str:
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.failure is not None for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.skipped is not None for case in cases)),
    }
    root = ElementTree.Element("testsuites", {"name": name, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    for case in cases:
        attributes = {"classname": case.group, "name": case.name, "time": f"{case.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", {key: sanitize(text) for key, text in attributes.items()})
        if case.failure is not None:
            ElementTree.SubElement(element, "failure", {"message": sanitize(case.failure)})
        elif case.skipped is not None:
            ElementTree.SubElement(element, "skipped", {"message": sanitize(case.skipped)})
        if case.output:
            ElementTree.SubElement(element, "system-out").text = sanitize(case.output)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
