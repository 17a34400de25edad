"""ClickHouse: a server of its own, whose data are in its directory, reached by a port of this machine's own.

The port is that of its native protocol. Its configuration is two files there: what is said beside a setting is why.
The rest is the program's own default. ClickHouse, Inc., ClickHouse documentation, "Server Settings" and "Users and
Roles Settings".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.model import Refused
from dyno.servers import loopback, program_option, user_server
from dyno.servers.process import Process, Served, directory, program

INSTALL = "dyno install clickhouse"
VENDORS = "clickhouse"
"""The name of the vendor's program, which is many in one."""
# Versions before 19 don't tell theirs, and say so in these words.
_TOLD = r"ClickHouse server version (\d[\d.]*\d)|Unknown option specified: version"
KIND = program_option.Kind("ClickHouse server", _TOLD)
OF_MANY = program_option.Kind("ClickHouse server", _TOLD, ("server", "--version"))
CONFIGURATION, USERS = "config.xml", "users.xml"
PROFILE: Mapping[str, str] = {
    # As the profile that comes with it has it. Without a profile the program's default is to have one.
    "use_uncompressed_cache": "0",
}
# It takes the name of the outermost element as it is; `yandex` is what versions before 21 want.
_CONFIGURATION = """<yandex>
 <logger><level>warning</level><console>1</console></logger>
 <tcp_port>{port}</tcp_port><listen_host>{host}</listen_host>
 <path>{home}/data/</path><tmp_path>{home}/tmp/</tmp_path>
 <user_files_path>{home}/user_files/</user_files_path><format_schema_path>{home}/format_schemas/</format_schema_path>
 <mark_cache_size>{cache}</mark_cache_size>
 <users_config>{users}</users_config><default_profile>default</default_profile>
 <default_database>default</default_database>
</yandex>
"""
_USERS = """<yandex>
 <profiles><default>{settings}</default></profiles>
 <users><{user}><password_sha256_hex>{hash}</password_sha256_hex><networks><ip>{host}</ip></networks>
  <profile>default</profile><quota>default</quota></{user}></users>
 <quotas><default/></quotas>
</yandex>
"""


def _words(path: str = "") -> list[str] | None:
    """How it is started: Debian's program serves and nothing else, the vendor's is told to."""
    if path:
        return [path, "server"] if Path(path).name == VENDORS else [path]
    if found := program("clickhouse-server"):
        return [found]
    found = program(VENDORS)
    return [found, "server"] if found else None


def missing(path: str = "") -> str | None:
    """What is not here, with the command that installs it; None where all is. `path`: of a program of the user's
    choice."""
    if path:
        return (OF_MANY if Path(path).name == VENDORS else KIND).wrong(path)
    return None if _words() else user_server.lacking("clickhouse-server", INSTALL)


class ClickHouse(Served):
    """See `dyno.contracts.engine.Server`. `settings` are those of a user's profile; `cache_bytes` is the size of the
    cache of marks, which tell where in a column's file its rows begin; `path` is that of another program."""

    def __init__(self, home: Path, settings: Mapping[str, str], cache_bytes: int, path: str = "") -> None:
        words = _words(path)
        if words is None or missing(path):
            raise Refused(f"{missing(path)}")
        self._home = home.absolute()
        self.data = self._home / "data"
        self.address = loopback.own(home)
        self._settings, self._cache = {**PROFILE, **settings}, cache_bytes
        # Its paths may not be relative, and it is told where its configuration is.
        self._process = Process(
            [*words, f"--config-file={self._home / CONFIGURATION}"], home, lambda: loopback.listens(self.address)
        )

    def start(self) -> None:
        from hashlib import sha256
        from html import escape

        directory(self._home, None)
        host, port = self.address.host, self.address.port
        (self._home / CONFIGURATION).write_text(
            _CONFIGURATION.format(home=self._home, host=host, port=port, cache=self._cache, users=USERS)
        )
        hashed = sha256(self.address.password.encode()).hexdigest()
        settings = "".join(f"<{name}>{escape(value, quote=False)}</{name}>" for name, value in self._settings.items())
        (self._home / USERS).write_text(
            _USERS.format(settings=settings, user=self.address.user, hash=hashed, host=host)
        )
        self._process.start()
