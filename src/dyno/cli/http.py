"""`dyno http`: one request, timed part by part. Its options are curl's, except for -n, --keep and --human."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.passwords import mask_argument
from dyno.contracts.safe_read import MIB, opened
from dyno.host.process import deferred_signals
from dyno.http.options import Options, checked

MOST = 100_000
MOST_DATA = 256 * MIB
TYPES = {"str": str, "Path": PATH, "float": float, "int": int}


def _curl_options(function: Callable[..., int]) -> Callable[..., int]:
    # The decorator applied last is listed first.
    for each in reversed([each for each in fields(Options) if each.metadata]):
        words, kind = each.metadata["words"], str(each.type).partition(" ")[0]
        more: dict[str, Any] = {"metavar": each.metadata["metavar"]}
        if kind == "bool":
            more = {"is_flag": True}
        elif kind in TYPES:
            more["type"] = TYPES[kind]
        else:
            more["multiple"] = True
        function = click.option(*words, each.name, help=each.metadata["help"], **more)(function)
    return function


@click.command(name="http", options_metavar="[CURL'S OPTIONS]")
@click.argument("url", metavar="URL")
@_curl_options
@click.option("-d", "--data", multiple=True, metavar="DATA", help="Send this data; @FILE: read it from a file.")
@click.option("-n", "count", type=click.IntRange(1, MOST), default=1, metavar="N", help="Make N requests.")
@click.option("--keep", is_flag=True, help="With -n: reuse the connection. Default: a new one for each request.")
@click.option("--human", is_flag=True, help="Print a waterfall of the stages instead of JSON.")
def http_command(url: str, data: tuple[str, ...], count: int, keep: bool, human: bool, **flags: Any) -> int:
    """Make one HTTP request, and report how long each of its parts took.

    Exit status: 0, or 1 if the request failed; the reason is in `error`.

    \b
    dyno http https://example.org/
    dyno http https://example.org/ -L --http2 --human
    dyno http https://example.org/ -n 50
    """
    from dyno.http import Client
    from dyno.http.stages import repeated
    from dyno.report import outcomes

    checked(url)
    options = {name: value for name, value in flags.items() if value not in (None, False, ())}
    if "output" in options:
        # It imports `dyno.results`, which takes long.
        from dyno.cli import files

        files.check_streamed(str(options["output"]))
    if data:
        options["data"] = b"&".join(map(_read, data))
    if (user := options.get("user", "")).startswith("@"):
        options["user"] = _read(user).decode(errors="surrogateescape").rstrip("\r\n")
    # libcurl's callbacks may not raise.
    with deferred_signals() as deferred, Client(Options.of(options), lambda: bool(deferred)) as client:
        if count == 1:
            record, show = client.request(url), outcomes.print_waterfall
            failed = record["error"] is not None
        else:
            records = (client.request(url, fresh=not keep) for _ in range(count))
            record, show = repeated(records, mask_argument(url)), outcomes.print_summary
            failed = record["failed"] > 0
    if human:
        show(record, output())
    else:
        click.echo(json.dumps(record, indent=2))
    return 1 if failed else 0


def _read(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")
    with opened(Path(text[1:]), MOST_DATA) as file:
        return file.read()
