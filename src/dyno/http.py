"""HTTP requests by libcurl, with the time of each stage: `request` and `Client`.

    >>> from dyno import http
    >>> http.request("https://example.org/", location=True)["stages"]

Options have the names of curl's long options: see `dyno.suites.http.options.Options`. Times in a record have curl's
names: see `dyno.suites.http.client.record`. After Cloud Mercato, "New HTTP benchmark tool: pycurlb".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyno.contracts.value_types import JsonObject

if TYPE_CHECKING:
    from dyno.suites.http.client import Client
    from dyno.suites.http.options import Options

__all__ = ["Client", "Options", "request"]


def __getattr__(name: str) -> object:
    """Imports the client on demand, since a list of suites needs only the names of the stages."""
    if name not in ("Client", "Options"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dyno.suites.http.client import Client
    from dyno.suites.http.options import Options

    if name == "Client":
        return Client
    return Options


def request(url: str, **options: object) -> JsonObject:
    """Makes a request on a new connection. Returns its record, which has an `error` if the request failed.

    Raises UsageError for a malformed URL, for an unknown or invalid option, and if pycurl is not installed.
    """
    from dyno.suites.http.client import Client
    from dyno.suites.http.options import Options

    with Client(Options.from_dict(options)) as client:
        return client.request(url)
