"""What is sent after a redirect: another address, perhaps another method, and no secret for another host.

The rules are those of the tool curl, so that a request with `location` is what `curl -L` sends: The curl project,
"curl man page", options --location, --location-trusted and --request.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from dyno.http.options import Options

PRIVATE = ("authorization", "cookie")
"""Headers that are sent to no other origin: no other host, port or scheme."""
REWRITTEN = (301, 302, 303)
"""After these a POST becomes a GET."""
_PORTS = {"http": 80, "https": 443}


def after(options: Options, status: int, here: str, there: str) -> Options:
    """The request that follows. What stands in --request stays, as curl has it."""
    changed = options
    posts = options.data is not None and not options.get
    if (status in REWRITTEN and posts) or (status == 303 and options.upload_file is not None):
        changed = replace(changed, data=None, upload_file=None)
    if options.get:
        # It stands in the address that redirected.
        changed = replace(changed, data=None, get=False)
    before, now = _origin(here), _origin(there)
    if before != now:
        # A Host header is for one host, on whatever port.
        dropped = PRIVATE if before[1] == now[1] else (*PRIVATE, "host")
        kept = [line for line in options.header if line.partition(":")[0].strip().lower() not in dropped]
        changed = replace(changed, user=None, cookie=None, header=kept)
    return changed


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
