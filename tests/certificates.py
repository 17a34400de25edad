"""A certificate authority for tests, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from needed import unavailable

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """A certificate authority, and a server certificate for 127.0.0.1 that it signed. Creates `home`."""

    def __init__(self, home: Path) -> None:
        if shutil.which("openssl") is None:
            unavailable("openssl is not installed")
        self._home = home
        home.mkdir()
        home.chmod(0o755)
        self.authority, self.certificate, self.key = home / "ca.pem", home / "server.pem", home / "server.key"
        own = ("-subj", "/CN=tests", "-keyout", "ca.key", "-out", self.authority.name)
        self._openssl("req", "-x509", *CURVE, "-days", "30", *own)
        self._openssl("req", *CURVE, "-subj", "/CN=server", "-keyout", self.key.name, "-out", "server.csr")
        (home / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        signed_by = ("-CA", self.authority.name, "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        self._openssl("x509", "-req", "-in", "server.csr", "-days", "30", *signed_by, "-out", self.certificate.name)

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._home, check=True, capture_output=True)

    def owned_by(self, user: str | int) -> None:
        """Makes the server's user the owner of the key: some servers refuse a key that others may read."""
        shutil.chown(self.key, user)
        self.key.chmod(0o600)
