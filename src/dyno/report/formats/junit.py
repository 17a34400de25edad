"""JUnit XML: of a run a test case for each row, and of a gate one for each row that was judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from dyno.report.formats.names import rows
from dyno.report.tables import units
from dyno.report.tables.table import absent
from dyno.results import Run
from dyno.stats.summary import CellSummary
from dyno.text.sanitize import sanitize

Case = tuple[str, str, float, str | None, str | None, str]
"""Class and name, seconds, why it fails, why it is skipped, what it says."""


def text(run: Run) -> str:
    """A row without a number fails; what makes no sense for an engine is skipped."""
    cases = [*_rows(run), *((str(run.plan["suite"]), line, 0.0, None, "not measured", "") for line in absent(run))]
    return _document(f"dyno {run.plan['suite']}", cases)


def _rows(run: Run) -> Iterator[Case]:
    for name, row in rows(run):
        yield f"{row.cell.suite}.{row.phase}", name, (row.elapsed_ns or 0) / 1e9, row.why, None, _said(row)


def _said(row: CellSummary) -> str:
    rate = row.throughput
    if rate is None:
        return ""
    return f"{units.rate(rate.median)} {row.unit}/s, 95 % {units.interval(rate.low, rate.high)}"


def gated(data: Mapping[str, Any], strict: bool = False) -> str:
    """Of the JSON of `dyno check`: a row that is slower than the margin allows fails, as does one that has no number
    any more, and with `strict` one that can't be told; else that is skipped."""
    cases: list[Case] = []
    for row in data["changes"]:
        unclear = row["text"] if row["state"] == "unclear" else None
        fails = row["text"] if row["state"] == "slower" else unclear if strict else None
        skipped = None if strict else unclear
        cases.append((f"dyno.{row['phase']}", _named(row), 0.0, fails, skipped, f"{row['metric']}: {row['text']}"))
    for row in data["lost"]:
        cases.append((f"dyno.{row['phase']}", _named(row), 0.0, f"no number now: {row['why']}", None, ""))
    return _document("dyno check", cases)


def _named(row: Mapping[str, Any]) -> str:
    params = [f"{name}={value}" for name, value in row["params"].items()]
    return "/".join([row["phase"], row["engine"], *params, *filter(None, [row["tier"]])])


def _document(name: str, cases: Iterable[Case]) -> str:
    listed = list(cases)
    counts = {
        "tests": str(len(listed)),
        "failures": str(sum(case[3] is not None for case in listed)),
        "errors": "0",
        "skipped": str(sum(case[4] is not None for case in listed)),
    }
    root = ElementTree.Element("testsuites", {"name": name, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    for kind, title, seconds, fails, skipped, said in listed:
        about = {"classname": kind, "name": title, "time": f"{seconds:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", {key: sanitize(value) for key, value in about.items()})
        if fails is not None:
            ElementTree.SubElement(case, "failure", {"message": sanitize(fails)})
        elif skipped is not None:
            ElementTree.SubElement(case, "skipped", {"message": sanitize(skipped)})
        if said:
            ElementTree.SubElement(case, "system-out").text = sanitize(said)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
