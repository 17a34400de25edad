"""`dyno check`: a gate for CI. Is a run slower than its base, by more than a margin?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dyno import library
from dyno.cli import files
from dyno.cli.compare import shared, show
from dyno.cli.flag_values import NAME, PATH
from dyno.report.formats import junit

FAILED, NOTHING = 1, 3


@click.command(name="check")
@click.argument("run", type=PATH, metavar="RUN")
@click.option("--against", "base", type=PATH, required=True, metavar="BASE", help="The run before.")
@click.option("--margin", metavar="PERCENT", help="How much slower a row may be. Default: 5%.")
@click.option("--metric", "by", metavar="NAME", help="throughput, cpu, p50, p99, p999, response-p50 or response-p99.")
@click.option(
    "--junit", "junit_path", type=NAME, metavar="FILE", help="Write JUnit XML too, a test case for each row."
)
@click.option("--strict", is_flag=True, help="Fail too where one can't tell.")
@click.option("--json", "as_json", is_flag=True, help="JSON, with a stable schema.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Markdown tables.")
def command(run: Path, base: Path, strict: bool, junit_path: str | None, **given: Any) -> int:
    """Exit with status 1 if RUN is shown to be slower than BASE by more than the margin, and with 0 if not.

    \b
    dyno check after.json --against before.json
    dyno check after.json --against before.json --margin 10% --strict
    """
    by, margin = shared(given)
    if junit_path is not None:
        files.check(junit_path)
    found = library.check(run, base, metric=by, margin=margin, strict=strict)
    if junit_path is not None:
        files.save(junit_path, junit.gated(found.to_dict(), strict).encode())
    if given["as_json"]:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        show(found.sections, found.lines, given)
    if not len(found) and not found.lost:
        return NOTHING
    return 0 if found.passed else FAILED
