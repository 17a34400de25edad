"""One HTTP request by libcurl, timed part by part: `request` and `Client`. No command line, and no suite.

    >>> from dyno import http
    >>> http.request("https://example.org/", location=True)["stages"]

The options are curl's own, by their long names: see `dyno.http.options.Options`. The record has curl's names for its
times: see `dyno.http.record`. Cloud Mercato, "New HTTP benchmark tool: pycurlb".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dyno.http.client import Client
    from dyno.http.options import Options

__all__ = ["Client", "Options", "request"]


def __getattr__(name: str) -> Any:
    """What makes requests is imported when it is asked for: lists of suites need the stages' names alone."""
    if name == "Client":
        from dyno.http.client import Client

        return Client
    if name == "Options":
        from dyno.http.options import Options

        return Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def request(url: str, **options: Any) -> dict[str, Any]:
    """One request on a connection of its own. A request that failed is a record, too, with its `error`.

    Raises UsageError for what is no address and no option, and where pycurl is not installed.
    """
    from dyno.http.client import Client
    from dyno.http.options import Options

    with Client(Options.of(options)) as client:
        return client.request(url)
