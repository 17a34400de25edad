"""The port `bucket` on each engine, and the errors for a user's store that can't be used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from httpserving import scripted, whole
from needed import require, unavailable

from dyno import registry
from dyno.contracts.model import Refused, Tier, Value, Wrong
from dyno.contracts.suite import Job
from dyno.engines.s3 import engine_nginx
from dyno.selftest.flushes import COMMITS, PROVEN, claims, proofs
from dyno.suites.objectstore import NoObject, StoreError, StoreRequest, Throttled
from dyno.suites.objectstore.conformance import CHECKS, run_one
from dyno.suites.objectstore.requests import run_all

pytestmark = pytest.mark.usefixtures("processes")

SUITE = registry.suite("objectstore")
ENGINES: list[tuple[str, dict[str, Value]]] = [
    ("directory", {}),
    ("versitygw", {"client": "thin"}),
    ("versitygw", {"client": "boto3"}),
    ("versitygw", {"client": "native"}),
    ("minio", {"client": "thin"}),
    ("minio", {"client": "boto3"}),
    ("minio", {"client": "native"}),
]
KEY, SECRET = "AKIDYNOTESTKEY", "geheimesgeheimnis"


def job_of(name: str, home: Path, given: Mapping[str, Value], server: Any = None, tier: Tier | None = None) -> Job:
    spec = registry.reduce_to_suite(SUITE, registry.engine(name))
    assert spec is not None
    require(spec if name != "s3" else registry.engine("versitygw"))
    options = spec.resolve(given)
    if server is None and spec.server is not None:
        server = spec.create_server(home / "server", tier, options, 1)
    return Job(spec, home, tier or spec.default_tier, options, {}, seed=1, clients=1, server=server)


@contextmanager
def opened(job: Job, large: bool = False) -> Iterator[Callable[[str], Any]]:
    @contextmanager
    def port(store: str) -> Iterator[Any]:
        (job.home / store).mkdir(exist_ok=True)
        with closing(job.open(job.home / store)) as engine, closing(job.port(engine, large, 60.0)) as bucket:
            yield bucket

    yield port


@pytest.mark.parametrize(("name", "given"), ENGINES, ids=str)
def test_each_engine_conforms(home: Path, name: str, given: dict[str, Value]) -> None:
    made = job_of(name, home, given)
    if made.server is not None:
        made.server.start()
    try:
        for large in (False, True):
            with opened(made, large) as port:
                for check in CHECKS.values():
                    check(lambda store, port=port, large=large: port(f"{store}-{large}"), None)
    finally:
        if made.server is not None:
            made.server.close()


def test_a_directory_conforms_at_tier_power(home: Path) -> None:
    with opened(job_of("directory", home, {}, tier=Tier.POWER)) as port:
        for check in CHECKS.values():
            check(port, Tier.POWER)


def test_altered_body_fails_the_check(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = job_of("directory", home, {})
    with opened(made) as port:
        read = Path.write_bytes
        monkeypatch.setattr(Path, "write_bytes", lambda path, body: read(path, bytes(body)[:-1] + b"?"))
        with pytest.raises(Wrong, match="digest"):
            CHECKS["objects"](port, None)


# -- a user's own store --------------------------------------------------------------------------------------------


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def error(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{KEY}</Message></Error>".encode()


ANSWERS = [
    ("InvalidAccessKeyId", "403 Forbidden", "access key"),
    ("SignatureDoesNotMatch", "403 Forbidden", "secret key"),
    ("AuthorizationHeaderMalformed", "400 Bad Request", "region"),
    ("RequestTimeTooSkewed", "403 Forbidden", "clock"),
    ("AccessDenied", "403 Forbidden", "another owner"),
    ("NoSuchBucket", "404 Not Found", "bucket does not exist"),
    (None, "404 Not Found", "is not an S3 server"),
    (None, "200 OK", "is not an S3 server"),
]


@pytest.mark.parametrize(("code", "status", "said"), ANSWERS, ids=str)
def test_refusal_is_one_line_without_keys(home: Path, keys: None, code: str | None, status: str, said: str) -> None:
    body = b"<html><body>hello</body></html>" if code is None else error(code)
    answer = whole(body, status, "Content-Type: text/html")
    with (
        scripted(bucket=answer, **{"bucket/": answer}) as server,
        pytest.raises(Refused, match=said) as caught,
    ):
        job_of("s3", home, {"url": server.url, "bucket": "bucket"}, _foreign(server.url)).open(home)
    told = str(caught.value)
    assert "\n" not in told and KEY not in told and SECRET not in told


@pytest.mark.parametrize(
    ("status", "body", "header"),
    [
        ("301 Moved Permanently", error("PermanentRedirect"), "x-amz-bucket-region: eu-west-7"),
        ("400 Bad Request", b"", "x-amz-bucket-region: eu-west-7"),
        (
            "400 Bad Request",
            error("AuthorizationHeaderMalformed").replace(b"</Error>", b"<Region>eu-west-7</Region></Error>"),
            "Server: other",
        ),
    ],
    ids=["redirect", "head", "signature"],
)
def test_wrong_region_is_refused_naming_the_buckets_region(
    home: Path, keys: None, status: str, body: bytes, header: str
) -> None:
    with scripted() as server:
        there = b"<ListBucketResult><Name>bucket</Name></ListBucketResult>"

        def answered(peer: Any) -> None:
            # The server accepts only requests signed for the region that it names.
            right = b"/eu-west-7/s3/" in server.asked[-1]
            (whole(there) if right else whole(body, status, header, "Content-Type: application/xml"))(peer)

        server.answers = {"/bucket": answered}
        given: dict[str, Value] = {"url": server.url, "bucket": "bucket"}
        with pytest.raises(Refused, match="in eu-west-7, not in us-east-1: set its region"):
            job_of("s3", home, given, _foreign(server.url)).open(home)
        # The bucket opens with the right region.
        job_of("s3", home, {**given, "region": "eu-west-7"}, _foreign(server.url)).open(home).close()


def _foreign(url: str) -> Any:
    return registry.engine("s3").create_server(Path(), None, {"url": url}, 1)


def test_missing_keys_or_unreachable_server_is_refused(
    home: Path, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted() as server:
        gone = server.url
    with pytest.raises(Refused, match="can't connect"):
        job_of("s3", home, {"url": gone, "bucket": "bucket"}, _foreign(gone)).open(home)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Refused, match="no keys"):
        job_of("s3", home, {"url": gone, "bucket": "bucket"}, _foreign(gone)).open(home)


@pytest.mark.parametrize("client", ["boto3", "thin", "native"])
def test_server_certificate_is_verified_with_aws_ca_bundle(
    home: Path, keys: None, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := engine_nginx.explain_unavailability(tls=True):
        unavailable(missing)
    home.parent.chmod(0o755)
    home.chmod(0o755)
    with closing(engine_nginx.Nginx(home / "tls", tls=True, workers=1)) as server:
        server.start()
        # The server's only file is the listing of a bucket.
        listing = server.root / "bucket"
        listing.write_bytes(b"<ListBucketResult><Name>bucket</Name></ListBucketResult>")
        listing.chmod(0o644)
        url = server.address.url
        made = job_of("s3", home, {"url": url, "bucket": "bucket", "client": client}, _foreign(url))
        with pytest.raises(Refused, match="can't connect"):
            made.open(home)
        monkeypatch.setenv("AWS_CA_BUNDLE", str(server.certificate))
        with opened(made) as port, port("store") as bucket, closing(bucket.asking(1, False)) as asking:
            assert type(run_one(asking, StoreRequest("get", "a"))) is NoObject


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Dyno's own versitygw, which stands in for a user's store."""
    require(registry.engine("versitygw"))
    server = registry.engine("versitygw").create_server(tmp_path_factory.mktemp("served"), None, {}, 1)
    assert server is not None
    with closing(server):
        server.start()
        yield server


class TestOnARealServer:
    @pytest.fixture
    def right(self, keys: None, served: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", served.address.user)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", served.address.password)
        return served

    @pytest.mark.parametrize("client", ["boto3", "thin", "native"])
    def test_users_bucket_keeps_all_foreign_objects(self, home: Path, right: Any, client: str) -> None:
        import boto3

        name = f"mine-{client}"
        mine = boto3.client("s3", endpoint_url=right.address.url, region_name="us-east-1")
        mine.create_bucket(Bucket=name)
        mine.put_object(Bucket=name, Key="precious", Body=b"mine")
        # Leftovers of a killed process on this machine, and objects of another machine.
        machine = _machine(home)
        left, others = f"dyno-{machine}-4194305-0123abcd/new/1", "dyno-00000000-1-0123abcd/new/1"
        for key in (left, others):
            mine.put_object(Bucket=name, Key=key, Body=b"x")
        mine.create_multipart_upload(Bucket=name, Key=left)
        given: dict[str, Value] = {"url": right.address.url, "bucket": name, "client": client}
        made = job_of("s3", home, given, _foreign(right.address.url))
        with opened(made) as port:
            for check in ("objects", "parts"):
                CHECKS[check](port, None)
        for store in home.iterdir():
            if store.name != "server":
                made.remove(store)
        found = {each["Key"] for each in mine.list_objects_v2(Bucket=name)["Contents"]}
        assert found == {"precious", others}
        assert not mine.list_multipart_uploads(Bucket=name).get("Uploads")

    def test_dynos_bucket_is_created_and_removed(self, home: Path, right: Any) -> None:
        import boto3

        mine = boto3.client("s3", endpoint_url=right.address.url, region_name="us-east-1")
        before = {each["Name"] for each in mine.list_buckets()["Buckets"]}
        left = f"dyno-{_machine(home)}-4194305-0123abcd"
        mine.create_bucket(Bucket=left)
        mine.put_object(Bucket=left, Key="a", Body=b"x")
        made = job_of("s3", home, {"url": right.address.url, "client": "thin"}, _foreign(right.address.url))
        with opened(made) as port:
            CHECKS["objects"](port, None)
        names = {each["Name"] for each in mine.list_buckets()["Buckets"]}
        assert left not in names and len(names - before) == 1
        made.remove(home / "objects")
        assert {each["Name"] for each in mine.list_buckets()["Buckets"]} == before

    @pytest.mark.parametrize(
        ("access", "secret", "region", "said"),
        [
            (KEY, SECRET, "", "access key"),
            ("dyno", SECRET, "", "secret key"),
            ("dyno", "", "eu-north-9", "not in eu-north-9"),
        ],
    )
    def test_wrong_keys_or_region_refusal_is_one_line(
        self,
        home: Path,
        right: Any,
        monkeypatch: pytest.MonkeyPatch,
        access: str,
        secret: str,
        region: str,
        said: str,
    ) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", access)
        if secret:
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        given: dict[str, Value] = {"url": right.address.url, "region": region}
        with pytest.raises(Refused, match=said) as caught:
            job_of("s3", home, given, _foreign(right.address.url)).open(home)
        told = str(caught.value)
        assert "\n" not in told and SECRET not in told and right.address.password not in told and KEY not in told

    def test_wrong_clock_is_refused(self, home: Path, right: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        import botocore.auth

        then = botocore.auth.get_current_datetime() - timedelta(hours=3)
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: then)
        with pytest.raises(Refused, match="clock"):
            job_of("s3", home, {"url": right.address.url}, _foreign(right.address.url)).open(home)


@pytest.mark.parametrize(
    ("name", "tier"),
    [("directory", Tier.PROCESS), ("directory", Tier.POWER), ("versitygw", Tier.PROCESS), ("minio", Tier.PROCESS)],
)
def test_system_calls_prove_each_tier(place: Path, name: str, tier: Tier) -> None:
    require(registry.engine(name))
    assert tier in registry.engine(name).tiers
    (found,) = proofs(claims([name], tier.value), place)
    if found.seen is None:
        unavailable(f"engine {name}: {found.why}")
    assert found.seen is not None and found.verdict == PROVEN, found.why
    # Written objects and copied objects.
    assert len(found.seen.commits) == found.seen.written == 2 * COMMITS
    # minio flushes objects although its tier doesn't require it.
    assert found.seen.flushed == (2 * COMMITS if tier is Tier.POWER or name == "minio" else 0)


@pytest.mark.parametrize("name", ["versitygw", "minio"])
def test_acknowledged_objects_survive_a_server_kill(home: Path, name: str) -> None:
    made = job_of(name, home, {"client": "thin"})
    server: Any = made.server
    keys = [f"a/{at}" for at in range(60)]
    with closing(server), opened(made) as port:
        server.start()
        with port("store") as bucket, closing(bucket.asking(8, False)) as asking:
            done = run_all(asking, 8, [StoreRequest("put", key, key.encode()) for key in keys])
            acknowledged = [ask.key for ask, _ in islice(done, 40)]
            server.kill()
        server.start()
        with port("store") as bucket, closing(bucket.asking(8, False)) as asking:
            for ask, answer in run_all(asking, 8, [StoreRequest("get", key) for key in acknowledged]):
                assert answer.body == ask.key.encode()


def _machine(home: Path) -> str:
    """This machine's part of the names that Dyno gives to its stores."""
    from dyno.servers import namespace

    probe = home / "probe"
    probe.mkdir()
    word = namespace.store_name(probe).split("_")[1]
    (probe / namespace.FILE).unlink()
    probe.rmdir()
    return word


@pytest.mark.parametrize("client", ["boto3", "thin"])
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        ("503 Slow Down", "SlowDown", Throttled),
        ("429 Too Many Requests", "", Throttled),
        ("503 Service Unavailable", "ServiceUnavailable", StoreError),
        # A redirect means that nothing was done: the bucket is elsewhere.
        ("301 Moved Permanently", "PermanentRedirect", StoreError),
        ("500 Internal Server Error", "InternalError", StoreError),
    ],
)
def test_throttling_is_distinguished_from_failure(
    home: Path, keys: None, client: str, status: str, code: str, kind: type
) -> None:
    listing = b"<ListBucketResult><Name>bucket</Name></ListBucketResult>"
    with scripted(bucket=whole(listing)) as server:
        made = job_of("s3", home, {"url": server.url, "bucket": "bucket", "client": client}, _foreign(server.url))
        with opened(made) as port, port("store") as bucket, closing(bucket.asking(1, False)) as asking:
            prefix = next(iter((home / "store").glob("namespace"))).read_text().replace("_", "-")
            server.answers = {**server.answers, f"/bucket/{prefix}/a": whole(error(code), status)}
            assert type(run_one(asking, StoreRequest("get", "a"))) is kind
