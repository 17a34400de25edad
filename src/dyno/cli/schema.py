"""`dyno schema`: the formats that Dyno writes, as JSON Schema."""

from __future__ import annotations

import ast
import inspect
import json
from itertools import pairwise
from typing import Any, get_args, get_origin, get_type_hints

import click
from msgspec.json import schema_components

from dyno.contracts.model import UsageError
from dyno.contracts.profile import ProfiledTrial
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.value_types import JsonObject
from dyno.report.bisect_json import Bisection
from dyno.report.compare_json import Between, ByVersion, Gate, Several, Within
from dyno.report.show_json import Show
from dyno.report.why_json import Why
from dyno.results.header import FirstLine, RecordedPlan
from dyno.results.run import Attempt

SCHEMAS: dict[str, tuple[type, ...]] = {
    "plan": (RecordedPlan,),
    "run": (FirstLine,),
    "trial": (Attempt,),
    "profile": (ProfiledTrial,),
    "show": (Show,),
    "compare": (Within, ByVersion, Between, Several, Gate),
    "why": (Why,),
    "bisect": (Bisection,),
}
"""The types of each format. A run file has a line of `run`, and then lines of `trial` and `profile`."""


@click.command(name="schema")
@click.argument("name", metavar="[NAME]", required=False)
def schema_command(name: str | None) -> int:
    """Print the JSON Schema NAME of a part of a run file or of a command's JSON; without a name, list them.

    \b
    plan     key `plan` of the first line
    run      the first line
    trial    each further line of a trial
    profile  each line of a profiled trial
    show     dyno show --json
    compare  dyno compare --json and dyno check --json
    why      dyno why --json
    bisect   dyno bisect --json
    """
    if name is None:
        click.echo("\n".join(SCHEMAS))
    elif name in SCHEMAS:
        click.echo(json.dumps(make_schema(*SCHEMAS[name]), indent=2))
    else:
        raise UsageError(unknown_name_message("schema", name, SCHEMAS))
    return 0


def make_schema(*kinds: type) -> JsonObject:
    """Returns the JSON Schema of values of any of the types, with the docstrings of their fields."""
    # `object` stands for any value: msgspec takes no empty schema for it.
    schemas, parts = schema_components(kinds, schema_hook=lambda _: {"title": "value"}, ref_template="#/$defs/{name}")
    classes: dict[str, type] = {}
    for kind in kinds:
        _collect_classes(kind, classes)
    for name in parts.keys() & classes.keys():
        texts = describe_fields(classes[name])
        for key, part in parts[name].get("properties", {}).items():
            if key in texts:
                part.setdefault("description", texts[key])
    whole = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    return {**whole, "$defs": parts}


def _collect_classes(hint: Any, classes: dict[str, type]) -> None:
    """Adds the classes with declared fields that the type consists of, by name."""
    for part in get_args(hint):
        _collect_classes(part, classes)
    kind = get_origin(hint) or hint
    if has_fields(kind) and kind.__name__ not in classes:
        classes[kind.__name__] = kind
        for part in get_type_hints(kind).values():
            _collect_classes(part, classes)


def has_fields(kind: object) -> bool:
    """Returns whether a type is a Struct, a dataclass or a TypedDict."""
    return any(hasattr(kind, name) for name in ("__struct_fields__", "__dataclass_fields__", "__total__"))


def describe_fields(kind: type) -> dict[str, str]:
    """Returns the docstrings of a class's fields, and of those that it inherits."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("dyno."):
            (declared,) = ast.parse(inspect.getsource(base)).body
            assert isinstance(declared, ast.ClassDef)
            for field, after in pairwise(declared.body):
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                    texts[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(after.value))
    return {name: " ".join(text.split()) for name, text in texts.items()}
