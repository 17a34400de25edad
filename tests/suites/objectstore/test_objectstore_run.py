"""Runs of the suite objectstore from a shell."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from needed import require, used
from shell import PATIENCE, Shell, is_one_line, wait_for

from dyno import registry
from dyno.engines.s3 import engines as s3

pytestmark = pytest.mark.usefixtures("processes")

SMALL = {"requests": 12, "objects": 60, "targets": 10, "burst": 20, "silence": 0, "size": 1_000, "inflight": 1}
PHASES = [phase.name for phase in registry.suite("objectstore").phases]


def run(shell: Shell, engine: str, *words: object, **params: object) -> None:
    """One trial of each engine."""
    flags = [f"-p{name}={value}" for name, value in {**used("objectstore", words, SMALL), **params}.items()]
    file = ("-o", shell.file, "--overwrite")
    status, _, err = shell.dyno(
        "run", "objectstore", "-e", engine, "--samples", "1", *flags, "--budget", "60", *file, *words
    )
    assert status in (0, 1, 3), err


def rows(shell: Shell) -> list[dict[str, Any]]:
    return [cell for cell in shell.shown()["cells"] if cell["engine"] != "null"]


@pytest.mark.parametrize("engine", ["directory", "versitygw:client=thin", "minio"])
def test_all_phases_are_valid(shell: Shell, engine: str) -> None:
    require(registry.engine(engine.partition(":")[0]))
    run(shell, engine, inflight=4, size=20_000, prefixes=3)
    phases = rows(shell)
    assert [(row["phase"], row["valid"], row["why"]) for row in phases] == [(name, True, None) for name in PHASES]
    facts = {row["phase"]: row["facts"] for row in phases}
    operations = dict.fromkeys(PHASES, 12) | {"burst": 20, "get-cold": 10}
    assert {name: told["served"] for name, told in facts.items()} == operations
    assert all(told["failed"] == told["throttled"] == 0 for told in facts.values())
    assert facts["burst"]["recovery_seconds"] is None
    # Each object takes four requests: one to open, two parts, one to join.
    assert facts["multipart-put"]["writing_requests"] == 4 * 12
    assert {name: count for name, count in facts["visible"].items() if name.startswith("stale")} == {
        "stale_reads": 0,
        "stale_lists": 0,
        "stale_overwrites": 0,
        "stale_deletes": 0,
        "stale_delete_lists": 0,
    }
    parts = {row["phase"]: set(row["latency_by_part_ns"] or ()) for row in phases}
    assert parts["get"] == parts["get-cold"] == {"first-byte", "body"}
    assert parts["burst"] == {f"tenth-{at}" for at in range(1, 11)}
    # Cold reads are proven cold, as for all other engines.
    assert {row["phase"]: row["temperature"] for row in phases}["get-cold"] == "cold"
    assert shell.left() == [] and shell.strays() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-e", "s3"], "needs a server or a bucket"),
        (["-e", "s3:url=https://AKIDYNO:geheimesgeheimnis@localhost"], "ignores keys in its URL"),
        (["-e", "directory", "--clients", "2"], "directory"),
        (["-p", "inflight=2001"], "from 1 to 2000"),
        (["-e", "versitygw:client=curl"], "client"),
        (["-e", "versitygw:throttle=9"], "at least 200"),
    ],
)
def test_invalid_options_are_a_one_line_error(shell: Shell, words: list[str], said: str) -> None:
    status, out, err = shell.run_here("run", "objectstore", *words)
    assert (status, out) == (2, "") and is_one_line(err) and said in err
    assert "AKIDYNO" not in err and "geheim" not in err


def test_a_throttled_server_answers_a_burst_with_429(shell: Shell) -> None:
    require(registry.engine("versitygw"))
    require(registry.engine("nginx"))
    run(shell, "versitygw:client=thin+throttle=200", "--phases", "put,list,burst", prefixes=3, burst=200)
    put, listed, burst = rows(shell)
    assert put["valid"] and listed["valid"] and put["facts"]["throttled"] == 0
    facts = burst["facts"]
    assert facts["burst_throttled"] > 0 < facts["burst_served"] and facts["recovery_seconds"] is not None
    assert facts["burst_throttled"] + facts["burst_served"] == 200 and not burst["valid"]
    out = shell.dyno("show", shell.file).out
    assert "throttled (429)" in out and "HTTP 429" in out
    assert shell.left() == [] and shell.strays() == []


# -- a throttling store: a proxy in front of the real server --------------------------------------------------------


Refusal = tuple[int, str] | None


class Proxy:
    """Test proxy in front of the real server. `refuses` gets the first line of each request and may return a status
    and a code to answer with. With `spoils`, the proxy changes the bodies of objects.
    """

    def __init__(self, to: tuple[str, int], refuses: Callable[[str], Refusal], spoils: bool = False) -> None:
        self._to, self._refuses, self._spoils = to, refuses, spoils
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            self._passed(peer)

    def _passed(self, peer: socket.socket) -> None:
        with socket.create_connection(self._to) as server:
            spoilt = threading.Event()
            threading.Thread(target=self._back, args=(server, peer, spoilt), daemon=True).start()
            while piece := peer.recv(1 << 16):
                # The header of a request is small and at the start of a block.
                line = piece.partition(b"\r\n")[0]
                request = line.decode("latin-1") if line.endswith(b" HTTP/1.1") else ""
                if refusal := self._refuses(request):
                    status, code = refusal
                    body = f"<Error><Code>{code}</Code></Error>"
                    head = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    peer.sendall((head + body).encode())
                    # Read the rest of the request, so that the connection is not reset.
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 16):
                        pass
                    return
                if self._spoils and request.startswith("GET") and "/objects/" in request:
                    spoilt.set()
                server.sendall(piece)

    @staticmethod
    def _back(server: socket.socket, peer: socket.socket, spoilt: threading.Event) -> None:
        """Passes an answer back. If the body is to be spoilt, changes the last byte of each block, but not of a
        header.
        """
        with contextlib.suppress(OSError):
            while piece := server.recv(1 << 16):
                if spoilt.is_set() and not piece.endswith(b"\r\n"):
                    piece = piece[:-1] + bytes([piece[-1] ^ 1])
                peer.sendall(piece)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Throttle:
    """Passes on the first `most` requests of a burst. The following requests are answered with "slow down", and every
    tenth with an error, until `over` seconds after the `burst`th request.

    `began` and `back` are the times of the first request and of the first one that was passed on again, by the
    throttle's own clock.
    """

    began: float | None = None
    back: float | None = None

    def __init__(self, most: int, burst: int, over: float) -> None:
        self._most, self._burst, self._over = most, burst, over
        self._lock, self._asked, self._until = threading.Lock(), 0, 0.0

    def __call__(self, asked: str) -> Refusal:
        if not asked.startswith("GET") or "/objects/" not in asked:
            return None
        with self._lock:
            moment = time.monotonic()
            self.began = self.began or moment
            self._asked += 1
            if self._asked == self._burst:
                self._until = moment + self._over
            if self._asked <= self._most:
                return None
            if self._asked > self._burst and moment >= self._until:
                self.back = self.back or moment
                return None
            return (500, "InternalError") if self._asked % 10 == 0 else (503, "SlowDown")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    require(registry.engine("versitygw"))
    server = registry.engine("versitygw").create_server(tmp_path_factory.mktemp("served"), None, {}, 1)
    assert server is not None
    with contextlib.closing(server):
        server.start()
        yield server


@pytest.fixture
def mine(served: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client with the keys of the server's owner."""
    import boto3

    variables = {
        "AWS_ACCESS_KEY_ID": served.address.user,
        "AWS_SECRET_ACCESS_KEY": served.address.password,
        "AWS_EC2_METADATA_DISABLED": "true",
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    session = boto3.Session(served.address.user, served.address.password, region_name="us-east-1")
    return session.client("s3", endpoint_url=served.address.url)


@pytest.mark.serial
def test_a_burst_counts_throttled_and_failed_requests(shell: Shell, served: Any, mine: Any) -> None:
    # Long enough that thread switches on a slow machine are negligible.
    throttle = Throttle(most=50, burst=500, over=5.0)
    proxy = Proxy((served.address.host, served.address.port), throttle)
    with contextlib.closing(proxy):
        run(shell, f"s3:url={proxy.url}+client=thin", "--phases", "burst", burst=500, objects=20)
    (row,) = rows(shell)
    facts = row["facts"]
    assert {name: facts[name] for name in ("served", "throttled", "failed")} == {
        "served": 50,
        "throttled": 405,
        "failed": 45,
    }
    # Compares the client's clock with the proxy's.
    assert throttle.began is not None and throttle.back is not None
    assert facts["recovery_seconds"] == pytest.approx(throttle.back - throttle.began, rel=0.1)
    # Latencies of served requests are recorded by position in the burst.
    assert row["latency_by_part_ns"]["tenth-1"]["p50"] > 0
    assert served.address.password not in shell.file.read_text()


class Bucket:
    """The owner's bucket, which already has an object."""

    def __init__(self, mine: Any, name: str) -> None:
        self._mine, self.name = mine, name
        mine.create_bucket(Bucket=name)
        mine.put_object(Bucket=name, Key="precious", Body=b"mine")

    def there(self) -> set[str]:
        pages = self._mine.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return {each["Key"] for page in pages for each in page.get("Contents", ())}

    def uploads(self) -> list[Any]:
        return list(self._mine.list_multipart_uploads(Bucket=self.name).get("Uploads", ()))


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_next_run_removes_objects_of_killed_run(shell: Shell, served: Any, mine: Any, by: signal.Signals) -> None:
    bucket = Bucket(mine, f"mine-{by.name.lower()}")
    engine = f"s3:url={served.address.url}+bucket={bucket.name}+client=thin"
    size = ("-p", "objects=100000", "-p", "size=1000", "-p", "inflight=1", "--timeout", "600")
    with shell.started("run", "objectstore", "-e", engine, *size, "-o", "long.json") as process:
        assert wait_for(lambda: any("/objects/" in key for key in bucket.there()))
        process.send_signal(by)
        process.wait(PATIENCE)
        shell.strays()
    if by is signal.SIGKILL:
        assert len(bucket.there()) > 1
    run(shell, engine, "--phases", "head")
    assert all(row["valid"] for row in rows(shell))
    assert bucket.there() == {"precious"} and bucket.uploads() == []


def write_config(shell: Shell, monkeypatch: pytest.MonkeyPatch, profiles: dict[str, dict[str, str]]) -> None:
    """Writes the configuration file of the AWS tools."""
    config = shell.home / "aws-config"
    lines = [
        line
        for name, settings in profiles.items()
        for line in (f"[{name}]", *(f"{key} = {value}" for key, value in settings.items()))
    ]
    config.write_text("\n".join(lines))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))


@pytest.mark.parametrize("by", ["AWS_ENDPOINT_URL", "AWS_CONFIG_FILE"])
def test_endpoint_is_read_from_aws_environment_and_config(
    shell: Shell, served: Any, mine: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    engines = "s3:client=thin"
    if by == "AWS_ENDPOINT_URL":
        monkeypatch.setenv(by, served.address.url)
    else:
        keys = {"aws_access_key_id": served.address.user, "aws_secret_access_key": served.address.password}
        settings = {"endpoint_url": served.address.url, **keys}
        write_config(shell, monkeypatch, {"default": settings, "profile other": settings})
        engines = "s3:client=thin,s3:client=thin+profile=other"
    run(shell, engines, "--phases", "head", objects=10)
    assert {row["engine"]: row["valid"] for row in rows(shell)} == dict.fromkeys(engines.split(","), True)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    status, _, err = shell.run_here("run", "objectstore", "-e", "s3")
    assert status == 2 and is_one_line(err) and "needs a server or a bucket" in err


@pytest.mark.parametrize("by", s3.ENDPOINTS)
def test_endpoint_of_environment_is_read(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(by, "http://127.0.0.1:1")
    assert s3.read_configured_url("") == "http://127.0.0.1:1"


def test_a_failed_trial_leaves_no_objects(shell: Shell, served: Any, mine: Any) -> None:
    bucket = Bucket(mine, "mine-failed")

    def refuses(asked: str) -> Refusal:
        return (500, "InternalError") if asked.startswith("PUT") and "/objects/0000/00000030" in asked else None

    proxy = Proxy((served.address.host, served.address.port), refuses)
    with contextlib.closing(proxy):
        run(shell, f"s3:url={proxy.url}+bucket={bucket.name}+client=thin", "--retries", 0, "--phases", "head")
    (row,) = rows(shell)
    assert not row["valid"] and "500 InternalError" in row["why"]
    assert bucket.there() == {"precious"}


def test_a_wrong_body_voids_the_phase(shell: Shell, served: Any, mine: Any) -> None:
    proxy = Proxy((served.address.host, served.address.port), lambda asked: None, spoils=True)
    with contextlib.closing(proxy):
        run(shell, f"s3:url={proxy.url}+client=thin", "--phases", "head,get", size="1000,20000")
    phases = rows(shell)
    assert [row["phase"] for row in phases] == ["head", "head", "get", "get"]
    for row in phases:
        if row["phase"] == "head":
            assert row["valid"]
        else:
            assert not row["valid"] and "wrong body" in row["why"]


REFUSALS = {
    "profile=wrong-key": "know the access key",
    "profile=wrong-secret": "the secret key",
    "region=eu-north-9": "not in eu-north-9",
    "bucket=nobodys": "the bucket does not exist",
}
"""Maps an option to the reason of the refusal."""


def test_errors_are_one_line_without_secrets(
    shell: Shell, served: Any, mine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, password = served.address.user, served.address.password
    profiles = {
        "profile wrong-key": {"aws_access_key_id": "AKIDYNOTESTKEY", "aws_secret_access_key": password},
        "profile wrong-secret": {"aws_access_key_id": user, "aws_secret_access_key": "geheimesgeheimnis"},
    }
    write_config(shell, monkeypatch, profiles)
    engines = ",".join(f"s3:url={served.address.url}+{option}" for option in REFUSALS)
    words = ("--samples", "1", "--phases", "put", "-p", "size=1000", "-p", "inflight=1", "-o", shell.file)
    status, out, err = shell.dyno("run", "objectstore", "-e", engines, *words)
    assert status == 3
    refused = rows(shell)
    assert len(refused) == len(REFUSALS)
    for row in refused:
        (reason,) = (reason for option, reason in REFUSALS.items() if option in row["engine"])
        assert row["why"].startswith("refused") and reason in row["why"] and "\n" not in row["why"]
        assert reason in " ".join(out.split())
    every = out + err + shell.file.read_text()
    for secret in ("AKIDYNOTESTKEY", "geheimesgeheimnis", password):
        assert secret not in every


# -- reports and costs ----------------------------------------------------------------------------------------------

PRICES = """
currency = "EUR"
kept_gb = 100
millions = 3
[prices.directory]
month = 7
kept_gb_month = 0.02
writing_requests = 5
reading_requests = 0.5
sent_bytes = 0.1
"""


@pytest.fixture(scope="module")
def priced(shared_shell: Shell) -> Shell:
    """A shell with the run file of several sizes of objects."""
    run(shared_shell, "directory", "--phases", "put,get", size="1000,50000", inflight="1,4")
    return shared_shell


def test_charts_and_costs_are_reported(priced: Shell) -> None:
    shell = priced
    (shell.home / "prices.toml").write_text(PRICES)
    phases = rows(shell)
    assert len(phases) == 2 * 2 * 2 and all(row["valid"] for row in phases)
    status, _, err = shell.dyno("plot", shell.file, "-o", "charts/")
    assert status == 0, err
    drawn = {path.stem for path in (shell.home / "charts").iterdir()}
    charts = ("latency-by-size", "bandwidth-by-concurrency")
    assert all(any(chart in name for name in drawn) for chart in charts), drawn
    charges = shell.shown("--prices", "prices.toml")["costs"]
    million = {(cost["phase"], cost["params"]["size"]): cost["million"] for cost in charges}
    # 50 kB a million times are 50 GB.
    assert million == pytest.approx(
        {
            ("put", 1_000): 5,
            ("put", 50_000): 5,
            ("get", 1_000): 0.5 + 0.1,
            ("get", 50_000): 0.5 + 5,
        }
    )
    months = [cost["month"] for cost in charges if cost["phase"] == "put"]
    assert months == pytest.approx([7 + 100 * 0.02 + 3 * 5] * 4) and charges[0]["currency"] == "EUR"
    status, out, _ = shell.dyno("show", shell.file, "--prices", "prices.toml")
    assert status == 0 and "Cost by prices.toml" in out and "24.00 EUR" in out


def test_stored_bytes_grow_with_number_of_objects(shell: Shell) -> None:
    run(shell, "directory", "--phases", "put", objects="20,200", prefixes="1,3", size=5_000)
    phases = rows(shell)
    assert len(phases) == 2 * 2 and all(row["valid"] for row in phases)
    # 10 objects have `size` bytes.
    stored_bytes = {row["params"]["objects"]: row["facts"]["kept_bytes"] for row in phases}
    assert stored_bytes == {20: 10 * 5_000 + 10 * 1_000, 200: 10 * 5_000 + 190 * 1_000}
    status, out, _ = shell.dyno("show", shell.file)
    assert status == 0 and "objects=20" in out and "objects=200" in out and "prefixes" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices = 3", "has no prices"),
        ("[prices.directory]\nmonth = -1", "expected a number from 0 to 1,000,000,000,000,000"),
        (f"[prices.directory]\nmonth = 1{'0' * 400}", "expected a number from 0 to 1,000,000,000,000,000"),
        ("[prices.directory]\nmonth = true", "expected a number from 0 to 1,000,000,000,000,000"),
        ("[prices.directory]", "expected prices by name"),
        ("curency = 'EUR'\n[prices.directory]\nmonth = 1", "did you mean currency?"),
        ("currency = 3\n[prices.directory]\nmonth = 1", "currency: expected a text"),
        ("=", "is not TOML"),
        ("[prices.minio]\nmonth = 1", "has no price for the engines of this run (directory)"),
        ("[prices.directory]\nget_requests = 1", "reading_requests"),
    ],
)
def test_unreadable_prices_are_a_one_line_error(priced: Shell, text: str, said: str) -> None:
    (priced.home / "prices.toml").write_text(text)
    status, out, err = priced.dyno("show", priced.file, "--json", "--prices", "prices.toml")
    assert (status, out) == (2, "") and is_one_line(err) and said in err
