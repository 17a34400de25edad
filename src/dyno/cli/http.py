"""`dyno http`: one request, timed part by part. Its options are curl's, except for -n, --keep and --human."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from signal import SIGKILL, SIGTERM
from time import sleep
from typing import Any
from urllib.parse import quote, quote_plus

import click
from rich.console import Console

from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.contracts.model import UsageError
from dyno.contracts.passwords import mask_argument
from dyno.contracts.value_types import JsonMapping, JsonObject
from dyno.host.process import deferred_signals
from dyno.suites.http import curl, write_out
from dyno.suites.http.options import Options, check_url

MOST = 100_000
LOAD_SECONDS = 0.5
"""Time that the command of --while gets to start."""
END_SECONDS = 2.0
"""Time that it gets to end."""
DATA = ("data", "data_raw", "data_binary", "data_urlencode", "json")
"""Options whose values are sent as one body, in the order of the command line."""
FILES = ("output", "dump_header", "cookie_jar")


def _size(text: str) -> int:
    if not (match := re.fullmatch(r"(\d{1,12})([BKMGTP]?)", text.upper())):
        raise click.BadParameter(f"expected bytes, such as 100K, got {text!r}")
    return int(match[1]) << 10 * "BKMGTP".find(match[2])


TYPES = {"str": str, "Path": PATH, "float": float, "int": int, "BYTES": _size}


class HttpCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["order"] = [param.name for param in self.make_parser(ctx).parse_args(list(args))[2]]
        return super().parse_args(ctx, args)


def _curl_options(function: Callable[..., int]) -> Callable[..., int]:
    # The decorator applied last is listed first.
    for each in reversed([each for each in fields(Options) if each.metadata]):
        words = each.metadata["words"]
        metavar = each.metadata["metavar"]
        kind = str(each.type).partition(" ")[0]
        value = {"metavar": metavar, "multiple": kind not in TYPES, "type": TYPES.get(metavar, TYPES.get(kind))}
        if kind == "bool":
            more: dict[str, Any] = {"is_flag": True}
        else:
            more = value
        function = click.option(*words, each.name, help=each.metadata["help"], **more)(function)
    return function


@click.command(name="http", cls=HttpCommand, options_metavar="[CURL'S OPTIONS]")
@click.argument("urls", metavar="URL", nargs=-1)
@_curl_options
@click.option("-d", "--data", multiple=True, metavar="DATA", help="Send this data; @FILE: a file without line ends.")
@click.option("--data-raw", multiple=True, metavar="DATA", help="Send this data, even if it begins with @.")
@click.option("--data-binary", multiple=True, metavar="DATA", help="Send this data; @FILE: a file unchanged.")
@click.option("--data-urlencode", multiple=True, metavar="DATA", help="Send [NAME=]TEXT or [NAME]@FILE, encoded.")
@click.option("--json", multiple=True, metavar="DATA", help="Like --data-binary, with the headers of JSON.")
@click.option("--oauth2-bearer", metavar="TOKEN", help="Send this token.")
@click.option("--url", multiple=True, metavar="URL", help="The address.")
@click.option("-g", "--globoff", is_flag=True, help="Accept brackets and braces in the address.")
@click.option("-w", "--write-out", metavar="TEXT", help="Print this text with curl's %{variables}; @FILE: a file.")
@click.option("-s", "--silent", is_flag=True, help="Print no error with -w, -i or -o -.")
@click.option("-S", "--show-error", is_flag=True, help="Print errors despite -s.")
@click.option("-n", "count", type=click.IntRange(1, MOST), default=1, metavar="N", help="Make N requests.")
@click.option("--keep", is_flag=True, help="With -n: reuse the connection. Default: a new one for each request.")
@click.option("--while", "load", metavar="COMMAND", help="With -n: also make N requests while this command runs.")
@click.option("--human", is_flag=True, help="Print a waterfall of the stages instead of JSON.")
def http_command(urls: tuple[str, ...], count: int, keep: bool, load: str | None, human: bool, **flags: Any) -> int:
    """Make one HTTP request, and report how long each of its parts took.

    With -w, -i, or - as a file, print what curl prints instead of the record.

    Exit status: 0, or 1 if the request failed; the reason is in `error`. With curl's output: curl's exit status.

    \b
    dyno http https://example.org/
    dyno http https://example.org/ -L --http2 --human
    dyno http https://example.org/ -n 50
    dyno http https://example.org/ -n 50 --human --while 'wrk -c 64 https://example.org/'
    dyno http https://example.org/ -s -o /dev/null -w '%{time_total}'
    """
    from dyno.http import Client
    from dyno.report import outcomes
    from dyno.suites.http.stages import summarize_requests

    if flags["write_out"] is None:
        template = None
    else:
        template = _text(flags["write_out"])
    write_out.fill_template(template or "", {})
    url = _url([*urls, *flags["url"]], flags["globoff"], flags["upload_file"])
    options = _options(flags)
    if as_curl := template is not None or flags["include"] or Path("-") in [flags[name] for name in FILES]:
        options.setdefault("output", Path("-"))
        if human or count > 1:
            raise UsageError("-n and --human print a summary, and exclude -w, -i and - as a file")
    if load is not None and count == 1:
        raise UsageError("--while compares many requests: add -n")
    # libcurl's callbacks may not raise.
    with deferred_signals() as deferred, Client(Options.from_dict(options), lambda: bool(deferred)) as client:
        if count == 1:
            record, show = client.request(url), outcomes.print_waterfall
            failed = record["error"] is not None
        else:
            requests = partial(client.request, url, fresh=not keep)
            record, show = (
                summarize_requests((requests() for _ in range(count)), mask_argument(url)),
                outcomes.print_summary,
            )
            failed = record["failed"] > 0
            if load is not None:
                loaded = _measure_under_load(
                    load, lambda: summarize_requests((requests() for _ in range(count)), mask_argument(url))
                )
                failed |= loaded["failed"] > 0
                record, show = {"idle": record, "loaded": loaded}, _print_both
        if as_curl:
            if failed and (flags["show_error"] or not flags["silent"]):
                click.echo(f"dyno: ({record['exitcode']}) {record['error']}", err=True)
            click.echo(write_out.fill_template(template or "", record).encode(errors="surrogateescape"), nl=False)
            return int(record["exitcode"])
    if human:
        show(record, output())
    else:
        click.echo(json.dumps(record, indent=2))
    if failed:
        return 1
    return 0


def _measure_under_load(command: str, measured: Callable[[], JsonObject]) -> JsonObject:
    """Calls `measured` while the command runs, then ends the command. Raises UsageError if it ends by itself."""
    try:
        if not (parts := shlex.split(command)):
            raise ValueError("it is empty")
        process = subprocess.Popen(parts, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"--while: can't start {command!r}: {error}") from None
    try:
        sleep(LOAD_SECONDS)
        record = measured()
        if process.poll() is not None:
            raise UsageError(
                f"--while: the command ended (status {process.returncode}) before the requests were made"
            )
        return record
    finally:
        # A command may ignore the first signal, and its children may outlive it.
        for number in (SIGTERM, SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


def _print_both(record: JsonMapping, console: Console) -> None:
    from dyno.report import outcomes

    for name, each in record.items():
        console.print(f"{name}:")
        outcomes.print_summary(each, console)


def _options(flags: dict[str, Any]) -> dict[str, object]:
    """Returns the options of the request. Reads the files of @FILE. Raises UsageError."""
    for path in (flags[name] for name in FILES):
        if path not in (None, Path("-")):
            # It imports `dyno.results`, which takes long.
            from dyno.cli import files

            files.check_streamed(str(path))
    # A flag that isn't given is None, False or (). 0 equals False, but is a value: --max-redirs 0.
    options = {
        name: flags[name]
        for name in Options.__dataclass_fields__
        if name in flags and flags[name] not in (None, ()) and flags[name] is not False
    }
    lines = (re.split(r"[\r\n]+", _text(text)) if text[:1] == "@" else [text] for text in flags["header"])
    headers = [line for part in lines for line in part if line]
    if flags["oauth2_bearer"] is not None:
        headers.append(f"Authorization: Bearer {flags['oauth2_bearer']}")
    if flags["json"]:
        given = [re.split("[:;]", line)[0].strip().lower() for line in headers]
        headers += [f"{name}: application/json" for name in ("Content-Type", "Accept") if name.lower() not in given]
    if "user" in options:
        options["user"] = _text(options["user"]).rstrip("\r\n")
    values = {name: iter(flags[name]) for name in DATA}
    order = [name for name in click.get_current_context().meta["order"] if name in DATA]
    return {**options, "header": headers, "data": _body([(name, next(values[name])) for name in order])}


def _url(urls: Sequence[str], globoff: bool, upload: Path | None) -> str:
    """Returns the only URL. Like curl, appends the name of the uploaded file if the path has none."""
    if len(urls) != 1:
        raise UsageError(f"expected one URL, got {len(urls)}")
    url = urls[0]
    if not globoff and re.search(r"[][{}]", re.sub(r"(^|//|@)\[[0-9A-Fa-f:.%]+\]", "", url)):
        raise UsageError(f"{mask_argument(url)}: globs are not supported; -g sends brackets and braces")
    _, slash, name = url.rpartition("://")[2].rpartition("/")
    if upload is not None and not (slash and name):
        url += ("" if slash else "/") + quote(upload.name, safe="")
    check_url(url)
    return url


def _text(text: str) -> str:
    if text.startswith("@"):
        return curl.read(text[1:]).decode(errors="surrogateescape")
    return text


def _body(parts: Sequence[tuple[str, str]]) -> bytes | None:
    """Returns the body of options in DATA, given as pairs of name and value."""
    body = None
    for name, text in parts:
        content = text.encode(errors="surrogateescape")
        key, mark, value = content.partition(b"=" if b"=" in content else b"@")
        if name == "data_urlencode":
            if mark == b"@":
                content = curl.read(text.partition("@")[2])
            else:
                content = value if mark else content
            content = (key + b"=" if mark and key else b"") + quote_plus(content).encode()
        elif text.startswith("@") and name != "data_raw":
            content = curl.read(text[1:]).translate(None, b"\r\n\0" if name == "data" else b"")
        if body is None:
            body = content
        else:
            body = body + (b"" if name == "json" else b"&") + content
    return body
