"""Writes the reference pages that follow from the tables in dyno.options; `--check` compares instead.

Attribute docstrings describe the fields of a class.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path

from dyno.options import OPTIONS, SWITCH, Option, PlanOptions

DOCS = Path(__file__).resolve().parents[1] / "docs"
WRITTEN = "<!-- Written by tools/reference.py: change src/dyno/{0}.py and run `make reference`. -->"
TYPES = {
    "Amount": "number",
    "Annotated[float, Meta(gt=0, le=1)]": "number",
    "Count": "integer",
    "None": "null",
    "Positive": "integer",
    "Text": "string",
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words if word)


def docstrings(kind: type) -> dict[str, tuple[str, str]]:
    """Of each field of the class: its annotation, and the docstring that follows it, or nothing."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    described: dict[str, tuple[str, str]] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = ast.literal_eval(after.value) if isinstance(after, ast.Expr) else ""
            described[node.target.id] = ast.unparse(node.annotation), " ".join(text.split())
    return described


def flags(option: Option) -> str:
    return code(option.short, option.flag, f"--no-{option.key}" if option.kind is SWITCH else "")


def recorded() -> Iterable[Sequence[str]]:
    described, options = docstrings(PlanOptions), {option.name: option for option in OPTIONS}
    for field in fields(PlanOptions):
        annotation, docs = described[field.name]
        kinds = " or ".join(TYPES[part.strip()] for part in annotation.split(" | "))
        yield code(f"plan.{field.name}"), kinds, docs.rstrip(".") or options[field.name].docs


def pages() -> dict[str, str]:
    """Text by the name of the page."""
    rows = ([flags(o), code(o.key), code(o.name), o.kind.words, o.docs] for o in OPTIONS)
    options = table(["Flag", "Plan key", "In Python", "Value", "Meaning"], rows)
    header = table(["Field", "Type", "Meaning"], recorded())
    return {
        "run-options.md": OPTIONS_PAGE.format(written=WRITTEN.format("options"), options=options, recorded=header)
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
