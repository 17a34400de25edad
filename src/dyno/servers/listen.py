"""The option `listen`: an address at which other machines reach a server of Dyno's own.

The server then listens there too, on a free port, for clients with a drawn password. It uses TLS, with a certificate
that it signed itself, unless the clients are Dyno's own native load, which does not encrypt. Clients on this machine
use the server's socket as ever.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pwd import struct_passwd
from typing import Protocol, TypeVar

from dyno.contracts.engine import Server
from dyno.contracts.model import Absent, Refused, Value
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.settings import Setting
from dyno.host import installation
from dyno.servers import loopback

LISTEN = "listen"
HELP = "an address of this machine at which others reach a server of Dyno's own: with a password, and by TLS"
USER = "dyno"
DAYS = 30
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


def setting() -> Setting:
    """Returns the option's declaration."""

    def parse(text: str) -> Value:
        if not text:
            return text
        try:
            every = ipaddress.ip_address(text).is_unspecified
        except ValueError:
            every = False
            if not _HOST_NAME.fullmatch(text):
                raise ValueError("expected an address of this machine, such as 10.0.0.5") from None
        if every:
            raise ValueError("expected one address of this machine, which the others can use, such as 10.0.0.5")
        return text

    return Setting(LISTEN, parse, "", HELP)


@dataclass(frozen=True)
class ServerAddress:
    """Address and files with which other machines reach a server that Dyno has started."""

    address: Mapping[str, Value]
    """Arguments with which client libraries connect, `host` and `port` among them."""
    files: Mapping[str, str]
    """Texts of the files that stand in the address."""


@dataclass(frozen=True)
class Listener:
    """Where a server listens for other machines, and its password."""

    host: str
    port: int
    password: str
    certificate: Path | None
    """The certificate, next to its key; None for a server without TLS."""

    @property
    def key(self) -> Path:
        assert self.certificate is not None
        return self.certificate.with_suffix(".key")

    def reached(self, **address: str | bool) -> ServerAddress:
        """Returns the address for other machines. `address`: what client libraries connect with, besides host and
        port; the name of the certificate's file stands for that file."""
        if self.certificate is None:
            text = {}
        else:
            text = {str(self.certificate): self.certificate.read_text()}
        return ServerAddress({"host": self.host, "port": self.port, **address}, text)


def listener(home: Path, options: Mapping[str, Value]) -> Listener | None:
    """Returns where a server in `home` listens by the options; None if it does not. Raises Refused."""
    host = str(options.get(LISTEN, ""))
    if not host:
        return None
    secure = options.get(CLIENT) != NATIVE_CLIENT
    certificate = home / "listen.crt" if secure else None
    return Listener(host, loopback.free_port(host), os.urandom(16).hex(), certificate)


def write_certificate(listener: Listener, user: struct_passwd | None) -> None:
    """Writes a self-signed certificate for the listener's host, and its key, which only the user may read, unless
    they are there. Raises Refused without the library `cryptography`."""
    if listener.certificate is None or listener.certificate.exists():
        return
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise Refused(
            f"{LISTEN}= needs a library for its certificate: {installation.extra_command('machines')}"
        ) from None
    from datetime import datetime, timedelta, timezone

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, listener.host[:64])])
    try:
        host: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(listener.host))
    except ValueError:
        host = x509.DNSName(listener.host)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # The clocks of two machines differ.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([host]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(listener.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(encoded)
    listener.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    if user is not None:
        for path in (listener.key, listener.certificate):
            shutil.chown(path, user.pw_uid, user.pw_gid)


class JoinableServer(Server, Protocol):
    """A server whose store clients on other machines can use."""

    joined: bool
    """Whether the store is another process's, so that nothing is created, removed or swept."""

    def reached(self) -> ServerAddress:
        """Returns the address for other machines."""


AddressT_co = TypeVar("AddressT_co", covariant=True)


class StoreServer(Server, Protocol[AddressT_co]):
    """The server of a store, as its engine sees it: one that Dyno started or a user's."""

    joined: bool
    """See `JoinableServer`."""
    url: str
    """The address of a user's server, as the user wrote it."""

    @property
    def address(self) -> AddressT_co:
        """Address with which a client connects."""


class ReachedServer:
    """A server that Dyno has started on another machine. Files that stand in its address are written to `home`. See
    `dyno.contracts.engine.Server`."""

    own = joined = True

    def __init__(self, home: Path, reached: ServerAddress) -> None:
        places = {path: home / Path(path).name for path in reached.files}
        for path, text in reached.files.items():
            places[path].write_text(text)
        self.address = {
            name: str(places[value]) if isinstance(value, str) and value in places else value
            for name, value in reached.address.items()
        }

    def start(self) -> None:
        pass

    def stop(self) -> None:
        raise Absent("is refused: the server is on another machine")

    kill = stop

    def close(self) -> None:
        pass

    def pids(self) -> Iterable[int]:
        return ()
