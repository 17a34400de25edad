"""Servers of a user's own, by their addresses: the suite http asks them for what they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyno.contracts.engine import EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Tier, UsageError, Value
from dyno.contracts.settings import Setting, boolean
from dyno.servers.user_server import URL, UserServer
from dyno.suites.http import RequestOptions, Target

if TYPE_CHECKING:
    from dyno.http.options import Options


def addresses(text: str) -> Value:
    """One or several, with blanks between them."""
    for url in text.split():
        # Only where there is one: the default, which is looked at whenever this file is read, has none.
        from dyno.http.options import checked

        try:
            checked(url)
        except UsageError as error:
            raise ValueError(str(error)) from None
    return text


def needs(options: Mapping[str, Value]) -> str | None:
    return None if options[URL] else "needs an address: -e website:url=https://example.org/"


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    return UserServer(str(options[URL]))


class Site:
    """See `dyno.contracts.engine.Engine`, and `dyno.engines.s3.http_requests.Web`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Any) -> None:
        from dyno.http.options import checked

        self._options = options
        self._urls = [checked(url) for url in str(options[URL]).split()]

    def options(self, how: RequestOptions) -> Options:
        from dyno.engines.s3 import http_requests

        secure = all(url.lower().startswith("https:") for url in self._urls)
        return http_requests.by(how.version, secure, insecure=bool(self._options["insecure"]))

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        return [Target(url, None, None) for url in self._urls]

    def close(self) -> None:
        pass

    def version(self) -> str:
        from dyno.http import curl

        c = curl.pycurl()
        return f"{c.version.split()[1].replace('/', ' ')}, {c.version.split()[0]}"

    def settings(self) -> Mapping[str, Value | None]:
        encrypted = {url.lower().startswith("https:") for url in self._urls}
        tls = "some" if len(encrypted) > 1 else True in encrypted
        return {"insecure": self._options["insecure"], "transport": URL, "tls": tls}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        if self._options["insecure"]:
            yield Caveat("insecure", "takes any certificate")


ENGINE = EngineSpec(
    name="website",
    title="A server of yours, by its address (client libcurl by pycurl)",
    opener=Site,
    ports={"requests": PortSpec("dyno.engines.s3.http_requests:Requests")},
    tiers={},
    modules=("pycurl",),
    requires=("pycurl>=7.45.7",),
    options=(
        Setting(
            URL, addresses, "", "what is asked for: addresses, blanks between them; or env:NAME, file:PATH", True
        ),
        Setting("insecure", boolean, False, "take any certificate"),
    ),
    server=serve,
    needs=needs,
    clients="one",
    by_default=False,
)
