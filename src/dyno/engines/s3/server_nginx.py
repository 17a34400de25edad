"""nginx with a directory of static files, on a local port. All users of the machine can read the files, which contain
random bytes.

The machine's configuration of nginx is not used. Comments say why a directive differs from the default. Source: F5,
Inc., nginx documentation, "Core functionality", ngx_http_core_module, ngx_http_ssl_module and ngx_http_v2_module.
"""

import shutil
import signal
import subprocess
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.servers import loopback, program_option
from dyno.servers.process import Process, directory, program, unprivileged

INSTALL = "dyno install nginx"
CONFIG_FILE, ROOT = "nginx.conf", "files"
CERTIFICATE, KEY = "certificate.pem", "key.pem"
DESCRIPTORS = 21_000
"""Limit of a worker's open files, which is higher than any client's number of connections."""
# The option -e, which names the error log, came with version 1.19.5.
KIND = program_option.ServerProgram(
    "nginx server",
    r"nginx/(\d[\d.]*)",
    ("-v",),
    least="1.19.5",
    names=("nginx",),
    install=INSTALL,
    only_own=True,
)
CONFIG = """
daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes {workers};
worker_rlimit_nofile {descriptors};
events {{ worker_connections {connections}; }}
http {{
    # It would write a line for each request.
    access_log off;
    # By default a connection is closed after 1000 requests or a minute.
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    # As in Debian's configuration.
    sendfile on;
    tcp_nopush on;
    default_type application/octet-stream;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        # All connections that arrive at once wait for the worker.
        listen {address} backlog=65535{listen};
        {secure}
        root {root};
    }}
}}
"""


def missing(tls: bool = False, path: str = "") -> str | None:
    """Returns what is missing, with the remedy; None if nothing is. `path` is a program that the user named."""
    if why := KIND.missing(path):
        return why
    return "needs openssl, to create its certificate" if tls and program("openssl") is None else None


class Nginx(Process):
    """An nginx server. With `tls`, it has a self-signed certificate and serves HTTP/1.1 and 2. With `plain2`, it
    serves HTTP/2 without TLS, and nothing else. `path` is a program that the user named."""

    def __init__(self, home: Path, tls: bool, workers: int, plain2: bool = False, path: str = "") -> None:
        if why := missing(tls, path):
            raise Refused(why)
        self._tls, self._workers, self._plain2 = tls, workers, plain2
        self.root, self.certificate = home / ROOT, home / CERTIFICATE
        address = loopback.own(home)
        self.address = loopback.Address(address.host, address.port, secure=tls)
        super().__init__(
            [KIND.executable(path), "-p", str(home), "-c", str(home / CONFIG_FILE), "-e", "stderr"],
            home,
            lambda: loopback.listens(self.address),
            unprivileged("www-data", "nginx"),
            # If the main process got SIGKILL, its workers would outlive it.
            orphaned=signal.SIGTERM,
        )

    def start(self) -> None:
        directory(self.home, self.user)
        self.root.mkdir(exist_ok=True)
        self.root.chmod(0o755)
        if self._tls and not self.certificate.exists():
            self._certify()
        configuration = CONFIG.format(
            workers=self._workers,
            descriptors=DESCRIPTORS,
            connections=DESCRIPTORS - 500,
            address=f"{self.address.host}:{self.address.port}",
            listen=" ssl http2" if self._tls else " http2" if self._plain2 else "",
            secure=f"ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY};" if self._tls else "",
            root=ROOT,
        )
        (self.home / CONFIG_FILE).write_text(configuration)
        super().start()

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
            raise Refused(f"openssl could not create a certificate: {openssl.stderr.strip()[-200:]}")
        if self.user is not None:
            shutil.chown(key, self.user.pw_uid, self.user.pw_gid)
        key.chmod(0o600)
