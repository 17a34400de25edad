"""S3 servers that Dyno starts on a directory: MinIO, which stores objects in its own format, and versitygw, which
stores each object as a file; and the user's own object store, Amazon's or any other by its URL.

Dyno's server listens on a local port. Only Dyno has the access keys, which are in the environment of the server's
process, where other users can't see them. A user's access keys come from the configuration of the AWS tools, and are
never stored. Without the name of a bucket, Dyno creates one and removes it. In a named bucket, Dyno touches only keys
with its prefix. Comments say why a setting differs from the default. Sources: MinIO, Inc., MinIO documentation,
"Settings and Configurations"; Versity Software, Inc., versitygw documentation, "POSIX backend" and "Global options".
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from dyno.contracts.counters import CounterSpec
from dyno.contracts.engine import EngineSpec, Listing, PortSpec, Server, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Caveat, Tier, Value
from dyno.contracts.programs import GoModule, Program
from dyno.contracts.settings import Setting, integer
from dyno.contracts.versions import Built, Versions
from dyno.engines.s3 import buckets, counters_minio, engine_nginx, http_requests
from dyno.engines.s3.engine_nginx import Throttle
from dyno.engines.s3.http_requests import LOOPBACK
from dyno.host import filesystem
from dyno.servers import loopback, program_option, user_server
from dyno.servers.process import Process
from dyno.servers.program_option import ServerProgram
from dyno.servers.user_server import URL, UserServer

MINIO_PROGRAM = Program(
    "minio",
    "20260212",
    GoModule(
        path="github.com/minio/minio",
        version="v0.0.0-20260212201848-7aac2a2c5b7c",
        sum="h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA=",
        least="1.24",
    ),
)
VERSITYGW_PROGRAM = Program(
    "versitygw",
    "1.8.0",
    GoModule(
        path="github.com/versity/versitygw",
        version="v1.8.0",
        sum="h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=",
        package="./cmd/versitygw",
        least="1.25",
    ),
)


def _program(title: str, pattern: str, pinned: Program) -> ServerProgram:
    return ServerProgram(
        title, pattern, names=(pinned.name,), install=f"dyno install {pinned.name}", pinned=pinned, only_own=True
    )


class S3Server(Process):
    """An S3 server on the directory `data`. Its access keys are the user and password of `address`."""

    server: ServerProgram
    flushes: str
    """What the server flushes before it acknowledges a write."""
    ready: str
    """Path of the health check in the server's URL."""
    region = buckets.REGION

    def __init__(self, home: Path, path: str = "", throttle: int = 0) -> None:
        self.data, self.address = home / "data", loopback.allocate_address(home)
        self._listens = self.address
        self._front = Throttle(home.with_name("throttle"), throttle, self._listens) if throttle else None
        if self._front is not None:
            self.address = replace(self.address, port=self._front.address.port)
        super().__init__(
            [self.server.executable(path)],
            home,
            lambda: loopback.says(self._listens, self.ready),
            environment=self.environment(),
        )

    def environment(self) -> dict[str, str]:
        raise NotImplementedError

    def arguments(self) -> list[str]:
        """Returns the program's arguments. The data directory must exist."""
        raise NotImplementedError

    def prepare(self) -> None:
        self.data.mkdir(exist_ok=True)
        self.command[1:] = self.arguments()

    def start(self) -> None:
        super().start()
        if self._front is not None:
            self._front.start()

    def kill(self) -> None:
        if self._front is not None:
            self._front.kill()
        super().kill()

    def pids(self) -> Iterable[int]:
        if self._front is None:
            return super().pids()
        return (*super().pids(), *self._front.pids())


class Minio(S3Server):
    """MinIO. It flushes the content of an object, but not its name, so it does not provide tier `power`."""

    flushes = "contents"
    ready = "/minio/health/ready"
    server = _program("MinIO server", r"minio version (\S+)", MINIO_PROGRAM)

    def environment(self) -> dict[str, str]:
        return {
            "MINIO_ROOT_USER": self.address.user,
            "MINIO_ROOT_PASSWORD": self.address.password,
            "MINIO_REGION": self.region,
            # Nobody uses the web interface.
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            # By default MinIO scans all objects at intervals, which would affect some phases and not others.
            "MINIO_SCANNER_SPEED": "slowest",
        }

    def arguments(self) -> list[str]:
        (self.home / "certs").mkdir(exist_ok=True)
        listen = ["--address", f"{self._listens.host}:{self._listens.port}", "--certs-dir", "certs"]
        return ["server", "--quiet", *listen, "data"]


class Versitygw(S3Server):
    """versitygw. It never flushes; an acknowledged object is in a file with its final name. The object's metadata is
    in extended attributes of the file, or in a separate directory if the file system has no extended attributes."""

    flushes = "none"
    ready = "/health"
    server = _program("versitygw server", r"Version\s*: (\S+)", VERSITYGW_PROGRAM)

    def environment(self) -> dict[str, str]:
        return {"ROOT_ACCESS_KEY": self.address.user, "ROOT_SECRET_KEY": self.address.password}

    def arguments(self) -> list[str]:
        # By default, versitygw closes the connection after each request.
        arguments = ["--quiet", "--keep-alive", "--health", self.ready, "--region", self.region]
        arguments += ["--port", f"{self._listens.host}:{self._listens.port}", "posix"]
        try:
            os.setxattr(self.data, "user.dyno", b"1")
            os.removexattr(self.data, "user.dyno")
        except OSError:
            (self.home / "beside").mkdir(exist_ok=True)
            arguments += ["--sidecar", "beside"]
        # Before version 1.8, a relative path is not that of the working directory.
        return [*arguments, str(self.data.absolute())]


class Store(buckets.Store):
    """A store in a bucket of a server that Dyno started."""

    def version(self) -> str:
        program = self.server.server
        return f"{program.names[0]} {program.version_of(program_option.get_path(self.options))} ({self.clients()})"

    def settings(self) -> Mapping[str, Value | None]:
        client = {"client": self.options["client"], "region": self.at.region, "transport": "loopback"}
        return {"flushes": self.server.flushes, "throttle": self.options["throttle"], **client}

    def files(self) -> Iterable[Path]:
        return filesystem.files(self.server.data)

    def caveats(self) -> Iterable[Caveat]:
        yield LOOPBACK
        if self.server.flushes == "contents":
            yield Caveat(
                "names-not-flushed", "flushes an object's content, more than tier process asks for, but not its name"
            )


LEAST = 200
THROTTLE = Setting(
    "throttle",
    integer(0, 100_000),
    0,
    "new connections per second, more of which get status 429 (by nginx in front); 0: any number",
)


def _declare(
    cls: type[S3Server], title: str, counters: CounterSpec | None = None, versions: Versions | None = None
) -> EngineSpec:
    name, program = cls.server.names[0], cls.server.pinned
    assert program is not None

    def serve(home: Path, tier: Tier, options: Mapping[str, Value], clients: int) -> Server:
        return cls(home, program_option.get_path(options), int(options.get("throttle", 0)))

    def needs(options: Mapping[str, Value]) -> str | None:
        if 0 < int(options["throttle"]) < LEAST:
            return (
                f"throttle: expected 0 or at least {LEAST}, since the probes after a burst are up to 100 per second"
            )
        own = cls.server.explain_missing(program_option.get_path(options)) or http_requests.explain_native(options)
        return own or (engine_nginx.explain_unavailability() if options["throttle"] else None)

    return EngineSpec(
        name=name,
        title=title,
        opener=Store,
        versions=versions,
        ports={"bucket": PortSpec("dyno.engines.s3.objects:Objects")},
        tiers={Tier.PROCESS: {"flushes": cls.flushes}},
        installation=Installation(
            modules=("boto3", "pycurl"), requires=("boto3>=1.36", "pycurl>=7.45.7"), programs=(program,), needs=needs
        ),
        options=(buckets.CLIENT, cls.server.setting, THROTTLE),
        server=ServerSpec(serve),
        counters=counters,
        listing=Listing(by_default=False),
    )


MINIO = _declare(Minio, "MinIO on one directory, which Dyno starts (boto3, or libcurl)", counters_minio.COUNTERS)
VERSITYGW = _declare(
    Versitygw,
    "versitygw 1.8, an S3 server over a directory of files, which Dyno starts (boto3, or libcurl)",
    versions=Versions((Built(VERSITYGW_PROGRAM, earliest="1"),)),
)


ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def needs(options: Mapping[str, Value]) -> str | None:
    url = str(options[URL]) or read_configured_url(str(options["profile"]))
    if "@" in urlsplit(url).netloc:
        return f"ignores keys in its URL: {buckets.KEYS}"
    if url or options["bucket"]:
        return http_requests.explain_native(options, [url] if url else ())
    return "needs a server or a bucket: -e s3:url=https://… for your own server, or s3:bucket=NAME for Amazon's"


def read_configured_url(profile: str) -> str:
    """Returns the URL that the AWS tools would use; empty for Amazon's own. Reads it without their library, which is
    slow to import. Source: AWS SDKs and Tools Reference Guide, "Service-specific endpoints"."""
    if os.environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return ""
    if url := next(filter(None, map(os.environ.get, ENDPOINTS)), None):
        return url
    config = Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser()
    with suppress(OSError):
        # Most users have no such file, and importing the parser takes longer than importing most declarations.
        if not config.exists():
            return ""
    from configparser import ConfigParser
    from configparser import Error as ConfigError

    parser = ConfigParser(interpolation=None, strict=False)
    with suppress(OSError, ConfigError, UnicodeDecodeError):
        parser.read(config)
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    if name != "default":
        name = f"profile {name}"
    return parser.get(name, "endpoint_url", fallback="")


class UserStore(buckets.Store):
    def version(self) -> str:
        with self.explained_errors():
            listing = self.client.list_objects_v2(Bucket=self.at.bucket, Prefix=self.at.prefix, MaxKeys=1)
        server = listing["ResponseMetadata"]["HTTPHeaders"].get("server")
        return f"{server or 'an unknown server'} ({self.clients()})"

    def settings(self) -> Mapping[str, Value | None]:
        tls = self.at.endpoint.startswith("https:")
        return {"client": self.options["client"], "region": self.at.region, "transport": "url", "tls": tls}

    def caveats(self) -> Iterable[Caveat]:
        yield Caveat("yours", "is your own store: Dyno does not know how durable an acknowledged write is")


def removal(name: str, options: Mapping[str, Value]) -> str:
    own = buckets.name_of(name)
    if options["bucket"]:
        words = ["rm", "--recursive", f"s3://{options['bucket']}/{own}/"]
    else:
        words = ["rb", "--force", f"s3://{own}"]
    flags = {"--endpoint-url": options[URL], "--profile": options["profile"]}
    arguments = [word for flag, value in flags.items() if value for word in (flag, str(value))]
    return shlex.join(["aws", "s3", *words, *arguments])


def remove(home: Path, options: Mapping[str, Value], server: Server) -> None:
    with closing(UserStore(home, None, options, server)) as store:
        store.remove()


S3 = EngineSpec(
    name="s3",
    title="Your own object store by its S3 API, Amazon's or another (boto3, or libcurl)",
    opener=UserStore,
    ports={"bucket": PortSpec("dyno.engines.s3.objects:Objects")},
    tiers={},
    installation=Installation(modules=("boto3", "pycurl"), requires=("boto3>=1.36", "pycurl>=7.45.7"), needs=needs),
    options=(
        user_server.setting("https", "http"),
        buckets.CLIENT,
        Setting("bucket", str, "", "your bucket, in which Dyno uses a prefix; empty: Dyno creates a bucket"),
        Setting("region", str, "", "its region; empty: as configured for the AWS tools"),
        Setting("profile", str, "", "profile of the AWS tools' configuration"),
    ),
    server=ServerSpec(
        lambda home, tier, options, clients: UserServer(str(options[URL])), remove=remove, removal=removal
    ),
    listing=Listing(by_default=False),
)
