"""nginx with static files, started by Dyno for the suite `http`. It listens on the loopback address, so the suite
measures the server, the client and the kernel, but no network.

All users of the machine can read the files, which contain random bytes. The machine's configuration of nginx is not
used. Comments say why a directive differs from the default. Source: F5, Inc., nginx documentation, "Core
functionality", ngx_http_core_module, ngx_http_ssl_module and ngx_http_v2_module.
"""

import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dyno.contracts.engine import Engine, EngineSpec, PortSpec, Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Refused, Tier, Unavailable, Value
from dyno.contracts.native_load import CLIENT
from dyno.contracts.settings import Setting, boolean, integer
from dyno.engines.s3 import http_requests
from dyno.servers import loopback, program_option
from dyno.servers.process import Process, program, unprivileged
from dyno.suites._shared.digest import new_digest
from dyno.suites.http import Target

INSTALL = "dyno install nginx"
CONFIG_FILE, ROOT = "nginx.conf", "files"
CERTIFICATE, KEY = "certificate.pem", "key.pem"
DESCRIPTORS = 21_000
"""Limit of a worker's open files, which is higher than any client's number of connections."""
# The option -e, which names the error log, came with version 1.19.5.
KIND = program_option.ServerProgram(
    "nginx server", r"nginx/(\d[\d.]*)", ("-v",), least="1.19.5", names=("nginx",), install=INSTALL, only_own=True
)
SECURE = f"ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY};"
VERIFY = f" ssl_client_certificate {CERTIFICATE}; ssl_verify_client on;"
CONFIG, SERVER, THROTTLE = (Path(__file__).with_name(f"nginx{part}.conf") for part in ("", "-files", "-throttle"))
"""Templates for `str.format`: of the configuration, and of its servers."""


def explain_unavailability(tls: bool = False, path: str = "") -> str | None:
    """Returns what is missing, with the remedy; None if nothing is. `path` is a program that the user named."""
    if why := KIND.explain_missing(path):
        return why
    if tls and program("openssl") is None:
        return "needs openssl, to create its certificate"
    return None


class Nginx(Process):
    """An nginx server. With `tls`, it has a self-signed certificate and serves HTTP/1.1 and 2. With `plain2`, it
    serves HTTP/2 without TLS, and nothing else. With `verify`, it requires a client certificate, which is its own.
    `path` is a program that the user named."""

    def __init__(
        self, home: Path, tls: bool, workers: int, plain2: bool = False, path: str = "", verify: bool = False
    ) -> None:
        if why := explain_unavailability(tls, path):
            raise Refused(why)
        self._tls = tls
        self._workers = workers
        self._plain2 = plain2
        self._verify = verify
        self.root, self.certificate = home / ROOT, home / CERTIFICATE
        address = loopback.allocate_address(home)
        self.address = loopback.Address(address.host, address.port, secure=tls)
        super().__init__(
            [KIND.executable(path), "-p", str(home), "-c", str(home / CONFIG_FILE), "-e", "stderr"],
            home,
            lambda: loopback.listens(self.address),
            unprivileged("www-data", "nginx"),
            # If the main process got SIGKILL, its workers would outlive it.
            orphaned=signal.SIGTERM,
        )

    def prepare(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.root.chmod(0o755)
        if self._tls and not self.certificate.exists():
            self._certify()
        configuration = CONFIG.read_text(encoding="utf-8").format(
            workers=self._workers,
            descriptors=DESCRIPTORS,
            connections=DESCRIPTORS - 500,
            server=self._site(),
        )
        (self.home / CONFIG_FILE).write_text(configuration)

    def _site(self) -> str:
        secure = ""
        listen = ""
        if self._tls:
            secure = SECURE + VERIFY * self._verify
            listen = " ssl http2"
        elif self._plain2:
            listen = " http2"
        return SERVER.read_text().format(
            address=f"{self.address.host}:{self.address.port}",
            listen=listen,
            secure=secure,
            root=ROOT,
        )

    def _certify(self) -> None:
        """Creates a self-signed certificate for the server's address."""
        key = self.home / KEY
        words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
        names = ["-subj", "/CN=dyno", "-addext", f"subjectAltName=IP:{self.address.host}"]
        openssl = subprocess.run(
            [program("openssl") or "openssl", *words, *names, "-keyout", str(key), "-out", str(self.certificate)],
            capture_output=True,
            text=True,
        )
        if openssl.returncode:
            raise Unavailable(f"openssl could not create a certificate: {openssl.stderr.strip()[-200:]}")
        if self.user is not None:
            shutil.chown(key, self.user.pw_uid, self.user.pw_gid)
        key.chmod(0o600)


class Throttle(Nginx):
    """nginx in front of a store. It passes on `rate` new connections per second, and a tenth of them at once. The
    first request of any other connection gets status 429."""

    def __init__(self, home: Path, rate: int, store: loopback.Address) -> None:
        super().__init__(home, False, 1)
        self._rate, self._store = rate, store

    def _site(self) -> str:
        address, store = (f"{each.host}:{each.port}" for each in (self.address, self._store))
        burst = max(self._rate // 10, 1)
        return THROTTLE.read_text().format(address=address, store=store, rate=self._rate, burst=burst)


def serve(home: Path, tier: Tier | None, options: Mapping[str, Value], clients: int) -> Server:
    own = program_option.get_path(options)
    tls, h2c, verify = (bool(options[name]) for name in ("tls", "h2c", "verify"))
    return Nginx(home, tls, int(options["workers"]), h2c, own, verify)


def needs(options: Mapping[str, Value]) -> str | None:
    if options["verify"] and not options["tls"]:
        return "client certificates need TLS: set tls with verify"
    if options["tls"] and options["h2c"]:
        return "h2c is HTTP/2 without TLS: set only one of tls and h2c"
    own = explain_unavailability(bool(options["tls"]), program_option.get_path(options))
    return own or http_requests.explain_native(options)


class Files(Engine):
    """nginx as an engine of `dyno.engines.s3.http_requests.Requests`."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value], server: Nginx) -> None:
        self._options, self._server = options, server
        self.client = str(options[CLIENT])

    def transport(self, version: str) -> tuple[bool, Mapping[str, object]]:
        tls = bool(self._options["tls"])
        if version == "3":
            raise Refused("Dyno starts nginx without HTTP/3: measure a server of yours with the engine website")
        if not tls and bool(self._options["h2c"]) is not (version == "2"):
            raise Refused("without TLS it serves one version only: use protocol=2 with h2c, and protocol=1.1 without")
        own = self._server.certificate if tls else None
        if self._options["verify"]:
            client = {"cert": own, "key": self._server.home / KEY}
        else:
            client = {}
        return tls, {"cacert": own, "noproxy": "*", **client}

    def publish(self, bodies: Sequence[bytes]) -> Sequence[Target]:
        targets = []
        for at, body in enumerate(bodies):
            file = self._server.root / f"{at}-{len(body)}"
            file.write_bytes(body)
            file.chmod(0o644)
            targets.append(Target(f"{self._server.address.url}/{file.name}", len(body), new_digest(body).digest()))
        return targets

    def version(self) -> str:
        own = KIND.version_of(program_option.get_path(self._options))
        return f"nginx {own} ({http_requests.client_version(self.client)})"

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
    title="nginx with static files, which Dyno starts (nginx; client libcurl by pycurl, or native load)",
    opener=Files,
    ports={"requests": PortSpec("dyno.engines.s3.http_requests:Requests")},
    # This engine stores nothing.
    tiers={},
    installation=Installation(
        modules=("pycurl",), requires=("pycurl>=7.45.7",), packages=("nginx-light", "openssl"), needs=needs
    ),
    options=(
        Setting("tls", boolean, False, "serve by TLS, with a self-signed certificate"),
        Setting("verify", boolean, False, "with tls: require a client certificate, which the client has"),
        Setting("h2c", boolean, False, "serve HTTP/2 without TLS, which can't be negotiated: for protocol=2"),
        Setting("workers", integer(1, 1_024), 1, "worker processes"),
        http_requests.CLIENT_SETTING,
        KIND.setting,
    ),
    server=ServerSpec(serve),
)
