"""nginx with static files, started by Dyno for the suite `http`. It listens on the loopback address, so the suite
measures the server, the client and the kernel, but no network."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine, EngineSpec, PortSpec, Server
from dyno.contracts.model import Caveat, Refused, Tier, Value
from dyno.contracts.settings import Setting, boolean, integer
from dyno.engines.s3 import http_requests
from dyno.engines.s3.server_nginx import KIND, Nginx, missing
from dyno.servers import program_option
from dyno.suites.http import Target


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    own = program_option.given(options)
    return Nginx(home, bool(options["tls"]), int(options["workers"]), bool(options["h2c"]), own)


def needs(options: Mapping[str, Value]) -> str | None:
    if options["tls"] and options["h2c"]:
        return "h2c is HTTP/2 without TLS: set only one of tls and h2c"
    return missing(bool(options["tls"]), program_option.given(options))


class Files(Engine):
    """nginx as an engine of `dyno.engines.s3.http_requests.Requests`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Any) -> None:
        self._options, self._server = options, server

    def transport(self, version: str) -> tuple[bool, Mapping[str, Any]]:
        tls = bool(self._options["tls"])
        if not tls and bool(self._options["h2c"]) is not (version == "2"):
            raise Refused("without TLS it serves one version only: use protocol=2 with h2c, and protocol=1.1 without")
        return tls, {"cacert": self._server.certificate if tls else None, "noproxy": "*"}

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        targets = []
        for at, body in enumerate(bodies):
            file = self._server.root / f"{at}-{len(body)}"
            file.write_bytes(body)
            file.chmod(0o644)
            targets.append(Target(f"{self._server.address.url}/{file.name}", len(body), sha256(body).digest()))
        return targets

    def version(self) -> str:
        own = KIND.version_of(program_option.given(self._options))
        return f"nginx {own} ({http_requests.client_version()})"

    def settings(self) -> Mapping[str, Value | None]:
        return {
            "tls": self._options["tls"],
            "worker_processes": self._options["workers"],
            "access_log": "off",
            "sendfile": True,
            "transport": "loopback",
        }

    def files(self) -> Iterable[Path]:
        return sorted(self._server.root.iterdir())

    def caveats(self) -> Iterable[Caveat]:
        yield http_requests.LOOPBACK


ENGINE = EngineSpec(
    name="nginx",
    title="nginx with static files, which Dyno starts (nginx; client libcurl by pycurl)",
    opener=Files,
    ports={"requests": PortSpec("dyno.engines.s3.http_requests:Requests")},
    # This engine stores nothing.
    tiers={},
    modules=("pycurl",),
    requires=("pycurl>=7.45.7",),
    packages=("nginx-light", "openssl"),
    options=(
        Setting("tls", boolean, False, "serve by TLS, with a self-signed certificate"),
        Setting("h2c", boolean, False, "serve HTTP/2 without TLS, which can't be negotiated: for protocol=2"),
        Setting("workers", integer(1, 1_024), 1, "worker processes"),
        KIND.setting,
    ),
    server=serve,
    needs=needs,
)
