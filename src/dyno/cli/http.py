"""`dyno http`: one request, timed part by part. Its options are curl's, except for -n, --keep and --human."""

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
from dyno.contracts.passwords import mask_argument
from dyno.contracts.safe_read import MIB, opened

MOST = 100_000
MOST_DATA = 256 * MIB
_CURL_OPTIONS: dict[str, tuple[str, Any, str]] = {
    "-H|--header": ("NAME: VALUE", list, "Send this header."),
    "--resolve": ("HOST:PORT:ADDRESS", list, "Use this address for a host."),
    "--connect-to": ("HOST:PORT:HOST:PORT", list, "Connect to another host and port."),
    "-X|--request": ("METHOD", str, "Use this method."),
    "-u|--user": ("USER:PASSWORD", str, "User and password; @FILE: read them from a file."),
    "-A|--user-agent": ("NAME", str, "Send this User-Agent."),
    "-e|--referer": ("URL", str, "Send this Referer."),
    "-b|--cookie": ("NAME=VALUE", str, "Send these cookies."),
    "-r|--range": ("FROM-TO", str, "Request only these bytes."),
    "-T|--upload-file": ("FILE", PATH, "Upload a file."),
    "-m|--max-time": ("SECONDS", float, "Maximum time, including redirects."),
    "--connect-timeout": ("SECONDS", float, "Maximum time to connect. Default: 300."),
    "--max-redirs": ("N", int, "Maximum number of redirects. Default: 50."),
    "--max-filesize": ("BYTES", int, "Maximum size of the body."),
    "--limit-rate": ("BYTES", int, "Maximum bytes per second."),
    "--cacert": ("FILE", PATH, "Trust these certificates."),
    "-E|--cert": ("FILE", PATH, "Client certificate."),
    "--key": ("FILE", PATH, "Key of the client certificate."),
    "-x|--proxy": ("URL", str, "Use this proxy; '': none."),
    "--noproxy": ("HOSTS", str, "Hosts to reach without a proxy."),
    "--interface": ("NAME", str, "Use this network interface."),
    "--unix-socket": ("PATH", PATH, "Connect to this socket."),
    "-o|--output": ("FILE", PATH, "Write the body to a file. Default: discard it."),
    "-k|--insecure": ("", bool, "Accept any certificate."),
    "-4|--ipv4": ("", bool, "Use IPv4 only."),
    "-6|--ipv6": ("", bool, "Use IPv6 only."),
    "--http1.0": ("", bool, "Use HTTP/1.0."),
    "--http1.1": ("", bool, "Use HTTP/1.1."),
    "--http2": ("", bool, "Use HTTP/2 if the server has it."),
    "--http2-prior-knowledge": ("", bool, "Use HTTP/2 without TLS."),
    "--http3": ("", bool, "Use HTTP/3 if the server has it."),
    "--http3-only": ("", bool, "Use HTTP/3 only."),
    "--tlsv1.2": ("", bool, "Use TLS 1.2 or later."),
    "--tlsv1.3": ("", bool, "Use TLS 1.3 or later."),
    "--compressed": ("", bool, "Request a compressed response."),
    "-L|--location": ("", bool, "Follow redirects."),
    "-I|--head": ("", bool, "Request only the head."),
    "-G|--get": ("", bool, "Append -d to the address."),
    "-f|--fail": ("", bool, "Count a status of 400 or more as a failure."),
}
"""Metavar, type and help of curl's options; a list: the option may be repeated."""


def _curl_options(function: Callable[..., int]) -> Callable[..., int]:
    # The decorator applied last is listed first.
    for words, (metavar, kind, help) in reversed(_CURL_OPTIONS.items()):
        field = words.rpartition("--")[2].replace("-", "_").replace(".", "_")
        if kind is bool:
            option = click.option(*words.split("|"), field, is_flag=True, help=help)
        elif kind is list:
            option = click.option(*words.split("|"), field, multiple=True, metavar=metavar, help=help)
        else:
            option = click.option(*words.split("|"), field, type=kind, metavar=metavar, help=help)
        function = option(function)
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
    from dyno.http import Client, Options
    from dyno.http.options import checked
    from dyno.http.stages import repeated
    from dyno.report.about import waterfall

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
    with _interrupts() as interrupted, Client(Options.of(options), interrupted) as client:
        if count == 1:
            record, show = client.request(url), waterfall.render
            failed = record["error"] is not None
        else:
            records = (client.request(url, fresh=not keep) for _ in range(count))
            record, show = repeated(records, mask_argument(url)), waterfall.summary
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


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether SIGINT or SIGTERM came: libcurl's callbacks may not raise."""
    signals: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: signals.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(signals)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
