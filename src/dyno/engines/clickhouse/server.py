"""A ClickHouse server that Dyno starts. It has its data in its directory and listens on a port of this machine alone.

The port is for ClickHouse's native protocol. The server reads its configuration from two files in its directory.
Settings that this module doesn't set have the program's defaults. Source: ClickHouse, Inc., ClickHouse documentation,
"Server Settings" and "Users and Roles Settings".
"""

from collections.abc import Mapping
from pathlib import Path

from dyno.servers import loopback
from dyno.servers.process import Process, directory
from dyno.servers.program_option import ServerProgram

VENDORS = "clickhouse"
"""Name of the vendor's program, which is a server if its first argument is `server`."""
# Versions before 19 don't print their version. They print this error message instead.
_VERSION = r"ClickHouse server version (\d[\d.]*\d)|Unknown option specified: version"


class ClickHouseProgram(ServerProgram):
    """Debian's program, which is only a server, or the vendor's, which combines many programs."""

    def wrong(self, path: str) -> str | None:
        of_many = self._replace(arguments=("server", "--version")) if Path(path).name == VENDORS else self
        return ServerProgram.wrong(of_many, path)


PROGRAM = ClickHouseProgram(
    "ClickHouse server",
    _VERSION,
    names=("clickhouse-server", VENDORS),
    install="dyno install clickhouse",
)
CONFIGURATION, USERS = "config.xml", "users.xml"
PROFILE: Mapping[str, str] = {
    # Like the profile that comes with ClickHouse. Without a profile, the program caches uncompressed blocks.
    "use_uncompressed_cache": "0",
}
# Versions before 21 require that the outermost element is called `yandex`. Later versions accept any name.
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


class ClickHouse(Process):
    """See `dyno.contracts.engine.Server`. `settings` go into the user's profile. `cache_bytes` is the size of the
    mark cache: marks tell where in a column's file its rows begin. `path` is the user's program."""

    def __init__(self, home: Path, settings: Mapping[str, str], cache_bytes: int, path: str = "") -> None:
        executable, home = PROGRAM.executable(path), home.absolute()
        self.data, self.address = home / "data", loopback.own(home)
        self._settings, self._cache_bytes = {**PROFILE, **settings}, cache_bytes
        words = [executable, *(["server"] if Path(executable).name == VENDORS else [])]
        # ClickHouse needs absolute paths.
        super().__init__(
            [*words, f"--config-file={home / CONFIGURATION}"], home, lambda: loopback.listens(self.address)
        )

    def start(self) -> None:
        from hashlib import sha256
        from html import escape

        directory(self.home)
        host, port = self.address.host, self.address.port
        (self.home / CONFIGURATION).write_text(
            _CONFIGURATION.format(home=self.home, host=host, port=port, cache=self._cache_bytes, users=USERS)
        )
        password = sha256(self.address.password.encode()).hexdigest()
        settings = "".join(f"<{name}>{escape(value, quote=False)}</{name}>" for name, value in self._settings.items())
        (self.home / USERS).write_text(
            _USERS.format(settings=settings, user=self.address.user, hash=password, host=host)
        )
        super().start()
