"""The pages of run options and of measured quantities, from the tables in dyno.options and dyno.fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import get_type_hints

from pages.formats import plain, type_of
from pages.text import WRITTEN, code, table

from dyno.cli.schema import describe_fields
from dyno.contracts.settings import SWITCH
from dyno.fields import CELLS, FIELDS, JSON, SAMPLES, Field, Sample
from dyno.options import OPTIONS, Option, PlanOptions

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


def measured() -> Iterable[Sequence[str]]:
    texts = describe_fields(Sample)
    hints = get_type_hints(Sample, include_extras=True)
    for field in FIELDS:
        key = ""
        if JSON in field.shown:
            key = code(field.key)
        unit = ""
        if field.name.endswith("_ns") or "Histogram" in field.type:
            unit = "ns"
        elif "bytes" in field.name:
            unit = "bytes"
        kind = type_of(plain(hints[field.name]))
        yield code(field.name), kind, unit, field.merge, field.summary, key, texts[field.name].rstrip(".")


def columns(field: Field) -> Iterable[Sequence[str]]:
    ours = {**field.columns_of(CELLS), **field.columns_of(SAMPLES)}
    tables = ", ".join(name for name in (CELLS, SAMPLES) if name in field.shown)
    if ours:
        yield " ".join(map(code, ours)), next(iter(ours.values())), tables, code(field.name)


def flags(option: Option) -> str:
    return code(option.short, option.flag, f"--no-{option.key}" if option.kind is SWITCH else "")


def recorded() -> Iterable[Sequence[str]]:
    texts = describe_fields(PlanOptions)
    hints = get_type_hints(PlanOptions, include_extras=True)
    options = {option.name: option.docs for option in OPTIONS}
    for field in fields(PlanOptions):
        docs = texts.get(field.name, "").rstrip(".") or options[field.name]
        yield code(f"plan.{field.name}"), type_of(plain(hints[field.name])), docs


def pages() -> dict[str, str]:
    """The text of each page, by name."""
    rows = ([flags(o), code(o.key), code(o.name), o.kind.words, o.docs] for o in OPTIONS)
    options = table(["Flag", "Plan key", "In Python", "Value", "Meaning"], rows)
    header = table(["Field", "Type", "Meaning"], recorded())
    head = ["Field", "Type", "Unit", "Of several clients", "Of several samples", "In `show --json`", "Meaning"]
    names = table(["Columns", "Type", "Tables", "Field"], (row for each in FIELDS for row in columns(each)))
    return {
        "reference/run-options.md": OPTIONS_PAGE.format(
            written=WRITTEN.format("src/dyno/options.py"), options=options, recorded=header
        ),
        "reference/measured-quantities.md": FIELDS_PAGE.format(
            written=WRITTEN.format("src/dyno/fields.py"), measured=table(head, measured()), columns=names
        ),
    }
