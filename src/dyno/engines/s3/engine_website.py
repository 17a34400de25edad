"""The user's own web servers, named by URLs. The suite `http` requests these URLs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, Listing, PortSpec, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, UsageError, Value
from dyno.contracts.native_load import CLIENT
from dyno.contracts.settings import Setting, boolean
from dyno.engines.s3 import http_requests
from dyno.servers.user_server import URL, UserServer
from dyno.suites.http import Target

SECRET = "token="
FILES = {
    "cert": "path of a client certificate",
    "key": "path of the client certificate's key",
    "cacert": "path of certificates to trust",
}


def addresses(text: str) -> Value:
    """Parses one or more URLs, separated by blanks."""
    for url in text.split():
        # Import inside the loop: the default has no URL, and it is parsed whenever this module is imported.
        from dyno.suites.http.options import check_url

        try:
            check_url(url)
        except UsageError as error:
            raise ValueError(str(error)) from None
    return text


def secret(text: str) -> Value:
    """Returns a header in a form that Dyno masks everywhere: token='NAME: VALUE'. Accepts the masked form too."""
    if text.startswith(SECRET) or not text:
        return text
    if not re.fullmatch(r"[!-9;-~]+: *[^'\\\x00-\x1f]+", text):
        raise ValueError("expected NAME: VALUE, without quotes and backslashes")
    return f"{SECRET}'{text}'"


def needs(options: Mapping[str, Value]) -> str | None:
    from dyno.suites.http.options import Options

    try:
        Options.from_dict(files_of(options))
    except UsageError as error:
        return str(error)
    if options[URL]:
        return http_requests.explain_native(options, str(options[URL]).split())
    return "needs a URL: -e website:url=https://example.org/"


def files_of(options: Mapping[str, Value]) -> dict[str, Path]:
    """Returns the options that are paths of files, by curl's names."""
    return {name: Path(str(options[name])).expanduser() for name in FILES if options[name]}


class Site(Engine):
    """The user's web servers as an engine of `dyno.engines.s3.http_requests.Requests`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: object) -> None:
        from dyno.suites.http.options import check_url

        self._options = options
        self.client = str(options[CLIENT])
        self._urls = [check_url(url) for url in str(options[URL]).split()]

    def transport(self, version: str) -> tuple[bool, Mapping[str, object]]:
        secure = all(url.lower().startswith("https:") for url in self._urls)
        if self._options["secret"]:
            header = [str(self._options["secret"])[len(SECRET) + 1 : -1]]
        else:
            header = []
        return secure, {"insecure": bool(self._options["insecure"]), "header": header, **files_of(self._options)}

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        return [Target(url, None, None) for url in self._urls]

    def version(self) -> str:
        return http_requests.client_version(self.client)

    def settings(self) -> Mapping[str, Value | None]:
        encrypted = {url.lower().startswith("https:") for url in self._urls}
        tls = "some" if len(encrypted) > 1 else True in encrypted
        return {"insecure": self._options["insecure"], "transport": URL, "tls": tls}

    def caveats(self) -> Iterable[Caveat]:
        if self._options["insecure"]:
            yield Caveat("insecure", "accepts any certificate")


ENGINE = EngineSpec(
    name="website",
    title="A server of yours, by its address (client libcurl by pycurl, or native load)",
    opener=Site,
    ports={"requests": PortSpec("dyno.engines.s3.http_requests:Requests")},
    tiers={},
    installation=Installation(modules=("pycurl",), requires=("pycurl>=7.45.7",), needs=needs),
    options=(
        Setting(URL, addresses, "", "URLs to request, separated by blanks; or env:NAME or file:PATH", True),
        http_requests.CLIENT_SETTING,
        Setting("insecure", boolean, False, "accept any certificate"),
        *(Setting(name, str, "", help) for name, help in FILES.items()),
        Setting("secret", secret, "", "a header that is a secret: NAME: VALUE; or env:NAME or file:PATH", True),
    ),
    server=ServerSpec(lambda home, tier, options, clients: UserServer(str(options[URL]))),
    listing=Listing(by_default=False),
)
