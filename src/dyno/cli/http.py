"""`dyno http`: one request, timed part by part. Parses and delegates. Its options are curl's, but for -n."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dyno.cli.console import output
from dyno.cli.flag_values import PATH
from dyno.text.passwords import mask_argument
from dyno.text.safe_read import MIB, opened

FAILED = 1
MOST = 100_000
MOST_DATA = 256 * MIB
_SWITCHES = {
    "-k|--insecure": "Take any certificate.",
    "-4|--ipv4": "By IPv4 alone.",
    "-6|--ipv6": "By IPv6 alone.",
    "--http1.0": "By HTTP/1.0.",
    "--http1.1": "By HTTP/1.1.",
    "--http2": "By HTTP/2 where the server has it.",
    "--http2-prior-knowledge": "By HTTP/2 without TLS.",
    "--http3": "By HTTP/3 where the server has it.",
    "--http3-only": "By HTTP/3.",
    "--tlsv1.2": "By TLS 1.2 at least.",
    "--tlsv1.3": "By TLS 1.3 at least.",
    "--compressed": "Ask for a compressed response.",
    "-L|--location": "Follow redirects.",
    "-I|--head": "Ask for the head alone.",
    "-G|--get": "Put -d into the address.",
    "-f|--fail": "A status of 400 or more is an error.",
}
_VALUES: dict[str, tuple[str, Any, str]] = {
    "-X|--request": ("METHOD", str, "Method."),
    "-u|--user": ("USER:PASSWORD", str, "Who asks; @FILE has it."),
    "-A|--user-agent": ("NAME", str, "What asks."),
    "-e|--referer": ("URL", str, "Where the address stood."),
    "-b|--cookie": ("NAME=VALUE", str, "Cookies."),
    "-r|--range": ("FROM-TO", str, "Only these bytes."),
    "-T|--upload-file": ("FILE", PATH, "Send a file."),
    "-m|--max-time": ("SECONDS", float, "Longest time, redirects included."),
    "--connect-timeout": ("SECONDS", float, "Longest time to connect. Default: 300."),
    "--max-redirs": ("N", int, "Most redirects. Default: 50."),
    "--max-filesize": ("BYTES", int, "Largest body."),
    "--limit-rate": ("BYTES", int, "Most bytes a second."),
    "--cacert": ("FILE", PATH, "Certificates to trust."),
    "-E|--cert": ("FILE", PATH, "Own certificate."),
    "--key": ("FILE", PATH, "Its key."),
    "-x|--proxy": ("URL", str, "Proxy; an empty one is none."),
    "--noproxy": ("HOSTS", str, "Hosts without a proxy."),
    "--interface": ("NAME", str, "Network interface to go by."),
    "--unix-socket": ("PATH", PATH, "Socket to connect to."),
    "-o|--output": ("FILE", PATH, "Where the body goes. Default: nowhere."),
}
_LISTS = {
    "-H|--header": ("NAME: VALUE", "Header."),
    "--resolve": ("HOST:PORT:ADDRESS", "Address of a host."),
    "--connect-to": ("HOST:PORT:HOST:PORT", "Where to connect instead."),
}


def _curls(function: Callable[..., int]) -> Callable[..., int]:
    """curl's own options, by its names."""
    # The last one that is put around it is shown first.
    for flags, help in reversed(_SWITCHES.items()):
        function = click.option(*flags.split("|"), _field(flags), is_flag=True, help=help)(function)
    for flags, (metavar, kind, help) in reversed(_VALUES.items()):
        function = click.option(*flags.split("|"), _field(flags), type=kind, metavar=metavar, help=help)(function)
    for flags, (metavar, help) in reversed(_LISTS.items()):
        words = {"multiple": True, "metavar": metavar, "help": help}
        function = click.option(*flags.split("|"), _field(flags), **words)(function)  # type: ignore[arg-type]
    return function


def _field(flags: str) -> str:
    return flags.rpartition("--")[2].replace("-", "_").replace(".", "_")


@click.command(name="http", options_metavar="[CURL'S OPTIONS]")
@click.argument("url", metavar="URL")
@_curls
@click.option("-d", "--data", multiple=True, metavar="DATA", help="What to send; @FILE has it.")
@click.option("-n", "count", type=click.IntRange(1, MOST), default=1, metavar="N", help="So many requests.")
@click.option("--keep", is_flag=True, help="With -n: on the same connection. Else each has a new one.")
@click.option("--human", is_flag=True, help="A waterfall of the stages, in place of JSON.")
def command(url: str, data: tuple[str, ...], count: int, keep: bool, human: bool, **given: Any) -> int:
    """Make one HTTP request, and say how long each of its parts took.

    Exit status: 0; 1 if it failed, which its `error` says.

    \b
    dyno http https://example.org/
    dyno http https://example.org/ -L --http2 --human
    dyno http https://example.org/ -n 50
    """
    # Not at the top: who only asks for help doesn't need it.
    from dyno.http import Client, Options
    from dyno.http.options import checked
    from dyno.http.stages import repeated
    from dyno.report.about import waterfall

    checked(url)
    with _interrupts() as stopped, Client(Options.of(_asked(given, data)), stopped) as client:
        if count == 1:
            record, show = client.request(url), waterfall.render
            failed = record["error"] is not None
        else:
            made = (client.request(url, fresh=not keep) for _ in range(count))
            record, show = repeated(made, mask_argument(url)), waterfall.summarised
            failed = record["failed"] > 0
    if human:
        show(record, output())
    else:
        click.echo(json.dumps(record, indent=2))
    return FAILED if failed else 0


def _asked(given: dict[str, Any], data: tuple[str, ...]) -> dict[str, Any]:
    """The options that were given. Raises UsageError for a file that can't be read."""
    found = {name: value for name, value in given.items() if value not in (None, False, ())}
    if "output" in found:
        # It knows run files, which take long to import.
        from dyno.cli import files

        files.writable(str(found["output"]))
    if data:
        found["data"] = b"&".join(map(_read, data))
    if (user := found.get("user", "")).startswith("@"):
        found["user"] = _read(user).decode(errors="surrogateescape").rstrip("\r\n")
    return found


def _read(text: str) -> bytes:
    if not text.startswith("@"):
        return text.encode(errors="surrogateescape")
    with opened(Path(text[1:]), MOST_DATA) as file:
        return file.read()


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether SIGINT or SIGTERM came: libcurl's callbacks may raise no exception."""
    seen: list[int] = []

    def note(number: int, _: object) -> None:
        seen.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
