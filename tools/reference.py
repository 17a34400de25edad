"""Writes the reference pages that follow from the tables in dyno.options and dyno.fields; `--check` compares instead.

Attribute docstrings describe the fields of a class.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from dyno.fields import CELLS, FIELDS, JSON, SAMPLES, Counted, Field, Sample
from dyno.options import OPTIONS, SWITCH, Option, PlanOptions

DOCS = Path(__file__).resolve().parents[1] / "docs"
WRITTEN = "<!-- Written by tools/reference.py: change src/dyno/{0}.py and run `make reference`. -->"
TYPES = {
    "Amount": "number",
    "Annotated[float, Meta(gt=0, le=1)]": "number",
    "Annotated[tuple[Point, ...], Meta(max_length=MOST_POINTS)]": "list",
    "Change": "integer",
    "Count": "integer",
    "Histogram": "string",
    "Mapping[Text, Fact]": "object",
    "Mapping[Text, Histogram | None]": "object",
    "None": "null",
    "Positive": "integer",
    "Residency": "object",
    "Text": "string",
    "Used": "object",
    "bool": "boolean",
}
OPTIONS_PAGE = """\
# Run options

{written}

The options that say what a run measures. Each has one name: as a flag of [`dyno run`](commands.md#dyno-run), as a key
of a [plan file](plan-files.md#keys) and as a keyword argument of [`dyno.run`](library.md). A flag overrides the key.

Numbers may be written `20000`, `20_000`, `20k`, `1.5M` or `64Ki`: letters without an `i` are powers of 1,000, with
one of 1,024. A time is a number of seconds, or text such as `300ms`, `90s`, `5m` or `2h`. A size is a number of GiB,
or text such as `512MiB` or `4GB`. In Python, times are numbers of seconds and sizes are numbers of bytes.

## Options

{options}

`clients` and `rate` are parameters of every suite, too: `-p rate=1000` is the same as `--rate 1000`.

## In the run file

`plan` in the [first line](run-file.md#the-first-line) has the options as resolved: what was requested, else what the
preset has, else the default. Engines, parameters, clients and rates are in its cells.

{recorded}
"""
FIELDS_PAGE = """\
# Measured quantities

{written}

What one trial measures for one phase. A field is a key of `samples[]` in the [run file](run-file.md#trial-lines).
Times are in ns and sizes in bytes. Unknown is null, never zero.

Several clients work side by side; their values are merged as the table says. The values of a row's samples become one
in `cells[]` of [`dyno show --json`](show-json.md) and in the [table of cells and phases](columns.md). A row that is
not valid has null. A median is null if a sample lacks its value.

## Fields

{measured}

## Columns

The columns of these fields in [CSV and Parquet](columns.md).

{columns}
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words if word)


def docstrings(kind: type) -> dict[str, tuple[str, str]]:
    """Annotation and docstring of each field of the class; an empty docstring if it has none."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    described: dict[str, tuple[str, str]] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
            described[node.target.id] = ast.unparse(node.annotation), " ".join(text.split())
    return described


def type_of(annotation: str) -> str:
    """JSON type of a field with this annotation."""
    kind = annotation.removesuffix(" | None")
    known = [TYPES[kind]] if kind in TYPES else [TYPES[part] for part in kind.split(" | ")]
    return " or ".join([*known, *(["null"] if kind != annotation else [])])


def measured() -> Iterable[Sequence[str]]:
    described = {**docstrings(Counted), **docstrings(Sample)}
    for field in FIELDS:
        key = code(field.key if JSON in field.shown else "")
        docs = described[field.name][1].rstrip(".")
        yield code(field.name), type_of(field.type), field.unit, field.merge, field.summary, key, docs


def columns(field: Field) -> Iterable[Sequence[str]]:
    ours = {**field.columns_of(CELLS), **field.columns_of(SAMPLES)}
    tables = ", ".join(name for name in (CELLS, SAMPLES) if name in field.shown)
    if ours:
        yield " ".join(map(code, ours)), next(iter(ours.values())), tables, code(field.name)


def flags(option: Option) -> str:
    return code(option.short, option.flag, f"--no-{option.key}" if option.kind is SWITCH else "")


def recorded() -> Iterable[Sequence[str]]:
    described, options = docstrings(PlanOptions), {option.name: option for option in OPTIONS}
    for field in fields(PlanOptions):
        annotation, docs = described[field.name]
        yield code(f"plan.{field.name}"), type_of(annotation), docs.rstrip(".") or options[field.name].docs


def pages() -> dict[str, str]:
    """The text of each page, by name."""
    rows = ([flags(o), code(o.key), code(o.name), o.kind.words, o.docs] for o in OPTIONS)
    options = table(["Flag", "Plan key", "In Python", "Value", "Meaning"], rows)
    header = table(["Field", "Type", "Meaning"], recorded())
    head = ["Field", "Type", "Unit", "Of several clients", "Of several samples", "In `show --json`", "Meaning"]
    names = table(["Columns", "Type", "Tables", "Field"], (row for each in FIELDS for row in columns(each)))
    return {
        "reference/run-options.md": OPTIONS_PAGE.format(
            written=WRITTEN.format("options"), options=options, recorded=header
        ),
        "reference/measured-quantities.md": FIELDS_PAGE.format(
            written=WRITTEN.format("fields"), measured=table(head, measured()), columns=names
        ),
    }


def main(arguments: Sequence[str]) -> int:
    stale = [
        name for name, text in pages().items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text
    ]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/{name} is not what the tables say: run `make reference`", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(pages()[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
