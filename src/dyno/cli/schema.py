"""`dyno schema`: the formats that Dyno writes, as JSON Schema."""

from __future__ import annotations

import json

import click
from msgspec.json import schema

from dyno.contracts.model import UsageError
from dyno.contracts.settings import unknown_name_message
from dyno.results.header import FirstLine, RecordedPlan
from dyno.results.run import Attempt

SCHEMAS: dict[str, type] = {"plan": RecordedPlan, "run": FirstLine, "trial": Attempt}
"""The type of each format. A run file has a line of `run`, and then lines of `trial`."""


@click.command(name="schema")
@click.argument("name", metavar="[NAME]", required=False)
def schema_command(name: str | None) -> int:
    """Print the JSON Schema NAME of a part of a run file; without a name, list them.

    \b
    plan   key `plan` of the first line
    run    the first line
    trial  each further line of a trial
    """
    if name is None:
        click.echo("\n".join(SCHEMAS))
    elif name in SCHEMAS:
        click.echo(json.dumps(schema(SCHEMAS[name]), indent=2))
    else:
        raise UsageError(unknown_name_message("schema", name, SCHEMAS))
    return 0
