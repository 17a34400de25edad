"""Runs of the suite http from a shell: with nginx, and with a user's own server."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from httpserving import Scripted, response, scripted, whole
from needed import require
from shell import Shell, is_one_line, wait_for

from dyno import registry
from dyno.engines.s3 import engine_nginx
from dyno.servers import loopback

pytestmark = pytest.mark.usefixtures("processes")

STAGES = {"lookup", "tcp", "tls", "send", "wait", "transfer"}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    require(registry.engine("nginx"))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")


def run(shell: Shell, *words: object) -> None:
    command = ("run", "http", "--samples", "1", "-p", "requests=300", "--budget", "60", "-o", shell.file, *words)
    status, _, err = shell.dyno(*command)
    assert status in (0, 1, 3), err


def rows(shell: Shell) -> list[dict[str, Any]]:
    return [cell for cell in shell.shown()["cells"] if cell["engine"] != "null"]


def samples(shell: Shell, engine: str) -> list[dict[str, Any]]:
    return [sample for attempt in shell.attempts(engine) for sample in attempt["samples"]]


@pytest.mark.parametrize("load", ["library", "native"])
def test_nginx_is_measured_with_kept_and_fresh_connections(shell: Shell, load: str) -> None:
    run(shell, "-p", "inflight=1,8,64", "-p", "body=1000", "--load", load)
    phases = rows(shell)
    assert [(row["phase"], row["params"]["inflight"]) for row in phases] == [
        *itertools.product(("kept", "fresh"), (1, 8, 64))
    ]
    for row in phases:
        assert row["engine"] == ("nginx" if load == "library" else "nginx:client=native")
        assert (row["valid"], row["why"], row["operations"]) == (True, None, 300)
        # A reused connection lacks the other stages: they are absent, not zero. Native load knows the address.
        parts = {"send", "wait", "transfer"}
        if row["phase"] == "fresh":
            parts = STAGES - {"tls"} - ({"lookup"} if load == "native" else set())
        assert set(row["latency_by_part_ns"]) == parts
        assert row["facts"]["status_200"] == 300
        assert row["facts"]["connections"] == (300 if row["phase"] == "fresh" else 0)
    for sample in samples(shell, "nginx"):
        assert (sample["checked"], sample["errors"], sample["bytes"]) == (300, 0, 300_000)
        assert sample["busy_ns"] <= sample["elapsed_ns"] and sample["server"] is not None
        assert sample["load"] == load
    assert shell.left() == [] and shell.strays() == []


def test_open_loop_runs_over_tls_and_http_2(shell: Shell) -> None:
    run(shell, "-e", "nginx:tls=yes", "-p", "protocol=1.1,2", "-p", "inflight=4", "--rate", "500", "-p", "body=50000")
    phases = rows(shell)
    assert len(phases) == 4 and all(row["valid"] for row in phases)
    assert all("tls" in row["latency_by_part_ns"] for row in phases if row["phase"] == "fresh")
    for sample in samples(shell, "nginx"):
        assert sample["response"] is not None and sample["late"] is not None
        assert sample["checked"] == sample["operations"] == 300


def test_open_loop_response_times_include_a_stall(shell: Shell) -> None:
    """A server answers one request at a time, and stalls once for 1 s during 300 requests at 100 per second. A
    request that is due k periods of 10 ms after the start of the stall waits for 1 s - k * 10 ms. The p95 of 300 is
    the 16th largest: 0.85 s.
    """
    turns, alone = itertools.count(1), threading.Lock()

    def turn(peer: socket.socket) -> None:
        with alone:
            if next(turns) == 100:
                threading.Event().wait(1.0)
            peer.sendall(response(b"hello"))

    with scripted(page=turn) as server:
        run(shell, *site(server), "-p", "inflight=200", "--phases", "fresh", "--rate", "100")
    (row,) = rows(shell)
    (sample,) = samples(shell, "website")
    assert row["valid"] and sample["operations"] == 300
    # Measuring can't make a stall shorter; a busy machine makes it longer.
    assert row["response_ns"]["p95"] >= 840_000_000
    assert row["response_ns"]["p50"] < row["response_ns"]["p95"]
    assert row["response_ns"]["p99"] is None


def site(server: Scripted, *paths: str) -> list[str]:
    urls = " ".join(f"{server.url}/{path}" for path in paths or ("page",))
    return ["-e", f"website:url={urls}"]


@pytest.mark.claim("A row with over 1 % of failed operations has no number and is in no verdict")
def test_fast_http_errors_give_no_number_or_rate(shell: Shell) -> None:
    """A server that starts to fail: 19 of 20 answers are then an immediate 503, the others are slow."""
    turns, bad = itertools.count(), threading.Event()

    def turn(peer: socket.socket) -> None:
        if bad.is_set() and next(turns) % 20:
            peer.sendall(response(b"", "503 Service Unavailable"))
        else:
            threading.Event().wait(0.005)
            peer.sendall(response(b"hello"))

    words = ("-p", "inflight=4", "-p", "bodies=any", "--phases", "fresh", "--rate", "100", "--budget", "0.5")
    with scripted(page=turn) as server:
        run(shell, *site(server), *words, "--samples", "3", "-o", "good.json")
        bad.set()
        run(shell, *site(server), *words, "--samples", "3", "-o", "bad.json")
    out = shell.dyno("show", "bad.json").out
    assert "No number" in out and "% of the operations failed" in out and "HTTP 503" in out
    assert "held by" not in out
    status, out, _ = shell.dyno("check", "bad.json", "--against", "good.json")
    assert status == 1 and "faster" not in out
    assert "% of the operations failed" in out


def test_a_low_rate_is_held(shell: Shell, plain: Scripted) -> None:
    words = ("-p", "inflight=2", "-p", "bodies=any", "--phases", "fresh", "--rate", "1,10", "--budget", "2")
    run(shell, *site(plain), *words)
    counts = [(sample["due"], sample["operations"]) for sample in samples(shell, "website")]
    assert sorted(counts) == [(2, 2), (20, 20)]
    out = shell.dyno("show", shell.file).out
    assert "held by" in out and "not held" not in out


def test_http_statuses_are_counted_and_errors_excluded(shell: Shell) -> None:
    turns = itertools.count()

    def turn(peer: socket.socket) -> None:
        busy = next(turns) % 10 == 9
        peer.sendall(response(b"", "503 Service Unavailable") if busy else response(b"hello"))

    with scripted(page=turn) as server:
        run(shell, *site(server), "-p", "inflight=4", "-p", "bodies=any", "--phases", "fresh")
    (sample,) = samples(shell, "website")
    assert (sample["operations"], sample["items"], sample["errors"]) == (300, 270, 30)
    assert (sample["facts"]["status_200"], sample["facts"]["status_503"]) == (270, 30)
    assert "HTTP 503" in sample["first_error"]


def test_single_different_body_voids_the_row(shell: Shell) -> None:
    def answer_once(other: bytes) -> Callable[[socket.socket], None]:
        turns = itertools.count()
        return lambda peer: peer.sendall(response(other if next(turns) == 250 else b"hello"))

    with scripted(upper=answer_once(b"HELLO"), longer=answer_once(b"hello, and more")) as server:
        engines = ",".join(f"website:url={server.url}/{path}" for path in ("upper", "longer"))
        run(shell, "-e", engines, "-p", "inflight=4", "--phases", "fresh")
    assert len(rows(shell)) == 2
    for row in rows(shell):
        assert not row["valid"] and "void" in row["why"]


def test_connections_closed_by_server_void_phase_kept(shell: Shell, plain: Scripted) -> None:
    run(shell, *site(plain), "-p", "inflight=4")
    reused, fresh = rows(shell)
    assert (reused["phase"], reused["valid"], fresh["valid"]) == ("kept", False, True)
    assert "void: not kept" in reused["why"] and "300 of 300" in reused["why"]


def test_unreachable_server_is_refused_with_remedy(shell: Shell) -> None:
    with scripted() as gone:
        pass
    run(shell, *site(gone), "-p", "inflight=4", "-p", "bodies=same,any")
    assert len(rows(shell)) == 4
    for row in rows(shell):
        assert row["why"].startswith("refused") and f"{gone.url}/page" in row["why"]
        assert "check the host and the port" in row["why"]


def test_untrusted_certificate_is_refused_with_remedy(shell: Shell, place: Path) -> None:
    with closing(engine_nginx.Nginx(place, tls=True, workers=1)) as serving:
        serving.start()
        (serving.root / "page").write_text("hello")
        run(shell, "-e", f"website:url={serving.address.url}/page", "--phases", "fresh", "-p", "inflight=1")
    (row,) = rows(shell)
    assert row["why"].startswith("refused") and "insecure=yes" in row["why"] and "SSL_CERT_FILE" in row["why"]


def test_http_error_to_reference_request_is_refused(shell: Shell) -> None:
    """Conformance makes six requests; the seventh is the reference request."""
    turns = itertools.count(1)

    def turn(peer: socket.socket) -> None:
        peer.sendall(response(b"", "404 Not Found") if next(turns) > 6 else response(b"hello"))

    with scripted(page=turn) as server:
        run(shell, *site(server), "-p", "inflight=1", "--phases", "fresh")
    (row,) = rows(shell)
    assert row["why"].startswith("refused in fresh") and "HTTP 404" in row["why"]


def test_a_request_has_its_method_body_and_headers(shell: Shell, plain: Scripted) -> None:
    shell.given["API_KEY"] = "X-Api-Key: geheimnis"
    (engine,) = site(plain)[1:]
    words = ("-p", "method=POST,PUT", "-p", r'send={"a":1\,"b":2}', "-p", r"header=Content-Type: text/x\nX-Two: 2")
    run(shell, "-e", f"{engine}+secret=env:API_KEY", "--phases", "fresh", "-p", "inflight=2", *words)
    assert all(row["valid"] for row in rows(shell))
    assert {head.split()[0] for head in plain.asked} == {b"POST", b"PUT"}
    lines = (b"Content-Type: text/x", b"X-Two: 2", b"X-Api-Key: geheimnis", b'\r\n\r\n{"a":1,"b":2}')
    assert all(line in head for head in plain.asked for line in lines)
    assert "geheimnis" not in shell.file.read_text() + shell.dyno("show", shell.file, "--all").out


def test_redirects_are_counted_or_followed(shell: Shell, plain: Scripted) -> None:
    plain.answers = {**plain.answers, "/moved": whole(b"", "302 Found", "Location: /page")}
    run(shell, *site(plain, "moved"), "--phases", "fresh", "-p", "inflight=2", "-p", "redirects=count,follow")
    counted, followed = (row["facts"] for row in rows(shell))
    assert (counted["status_302"], counted["connections"]) == (300, 300)
    assert (followed["status_200"], followed["redirects"], followed["connections"]) == (300, 300, 600)
    out = shell.dyno("show", shell.file).out
    assert "302: 300" in out and "200: 300" in out and "followed redirects" in out


def test_client_certificate_is_sent_if_configured(shell: Shell, place: Path) -> None:
    words = ("--phases", "fresh", "-p", "protocol=1.1,2", "-p", "inflight=2", "-p", "method=HEAD")
    run(shell, "-e", "nginx:tls=yes+verify=yes", *words)
    assert [(row["valid"], row["facts"]["protocol"]) for row in rows(shell)] == [(True, "1.1"), (True, "2")]
    with closing(engine_nginx.Nginx(place, tls=True, workers=1, verify=True)) as serving:
        serving.start()
        (serving.root / "page").write_text("hello")
        engine = f"website:url={serving.address.url}/page+cacert={serving.certificate}"
        files = f"cert={serving.certificate}+key={serving.home / engine_nginx.KEY}"
        run(shell, "-e", engine, "-e", f"{engine}+{files}", "--phases", "fresh", "-p", "inflight=2", "--overwrite")
    without, given = sorted(rows(shell), key=lambda row: bool(row["valid"]))
    assert given["facts"]["status_200"] == 300
    assert without["why"].startswith("refused") and "HTTP 400" in without["why"]


def test_native_load_keeps_connections_to_each_server(shell: Shell, place: Path) -> None:
    with (
        closing(engine_nginx.Nginx(place / "plain", tls=False, workers=1)) as plain,
        closing(engine_nginx.Nginx(place / "tls", tls=True, workers=1)) as secure,
    ):
        for serving in (plain, secure):
            serving.start()
            (serving.root / "page").write_text("hello")
        urls = f"{plain.address.url}/page {secure.address.url}/page"
        engine = f"website:url={urls}+cacert={secure.certificate}+client=native"
        run(shell, "-e", engine, "--phases", "kept", "-p", "inflight=32")
    (row,) = rows(shell)
    assert (row["why"], row["facts"]["connections"], row["facts"]["status_200"]) == (None, 0, 300)


def test_row_is_invalid_if_http_version_differs(shell: Shell, place: Path) -> None:
    run(shell, "-e", "nginx:tls=yes", "--phases", "fresh", "-p", "protocol=3", "-p", "inflight=1")
    assert all("without HTTP/3" in row["why"] for row in rows(shell))
    with closing(engine_nginx.Nginx(place, tls=True, workers=1)) as serving:
        serving.start()
        port = loopback.allocate_address(place).port
        files = ("-cert", serving.certificate, "-key", place / engine_nginx.KEY)
        # It answers every request with a page, by HTTP/1.0.
        with subprocess.Popen(["openssl", "s_server", "-www", "-quiet", "-accept", str(port), *files]) as old:
            wait_for(lambda: loopback.listens(loopback.Address("127.0.0.1", port)))
            words = ("-p", "protocol=2", "-p", "bodies=any", "--phases", "fresh", "-p", "inflight=1", "--overwrite")
            run(shell, "-e", f"website:url=https://127.0.0.1:{port}/+insecure=yes", *words)
            old.kill()
    (row,) = rows(shell)
    assert "void: not HTTP/2" in row["why"]


def test_stress_loads_the_server_from_second_process(shell: Shell) -> None:
    run(shell, "-p", "stress=0,16", "-p", "inflight=1")
    assert all(row["valid"] for row in rows(shell))
    second = [row["facts"].get("stress_requests") for row in rows(shell)]
    assert second[::2] == [None, None] and all(count > 0 for count in second[1::2])
    assert "second load" in shell.dyno("show", shell.file).out
    assert shell.left() == [] and shell.strays() == []


def test_report_by_place_tabulates_runs_together(shell: Shell) -> None:
    run(shell, "-e", "nginx", "-p", "inflight=1", "--phases", "fresh")
    for place in ("paris", "tokyo"):
        (shell.home / f"{place}.json").write_bytes(shell.file.read_bytes())
    status, out, err = shell.dyno("report", "paris.json", "tokyo.json", "--by", "place")
    assert (status, err) == (0, "")
    head, *lines = [line.split() for line in out.splitlines()]
    assert head[:2] == ["from", "to"] and head[2:7] == ["lookup", "tcp", "send", "wait", "transfer"]
    assert [line[:2] for line in lines[:2]] == [["paris", "nginx"], ["tokyo", "nginx"]]
    assert shell.dyno("report", "paris.json", "--by", "place", "-o", "x.html").status == 2


def test_report_by_place_refuses_run_without_parts(shell: Shell) -> None:
    shell.dyno("run", "selftest", "-p", "operations=10", "--samples", "1", "-o", shell.file)
    status, out, err = shell.dyno("report", shell.file, "--by", "place")
    assert (status, out) == (2, "") and is_one_line(err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-e", "website"], "needs a URL"),
        (["-e", "website:url=ftp://x/"], "scheme ftp"),
        (["-e", "nginx:tls=yes+h2c=yes"], "only one of tls and h2c"),
        (["-e", "nginx", "--clients", "2"], "nginx"),
        (["-p", "inflight=10001"], "from 1 to 10000"),
        (["-e", "nginx:verify=yes"], "set tls with verify"),
        (["-e", "website:url=https://x/+cert=/none"], "--cert: there is no file"),
        (["-p", "header=Cookie: me"], "the option secret"),
        (["-p", "header=none"], "NAME: VALUE"),
        (["-p", "send=random:much"], "send=random:much"),
        (["-e", "website:url=https://x/+secret=geheim"], "expected NAME: VALUE"),
    ],
)
def test_invalid_options_are_a_one_line_error(shell: Shell, words: list[str], said: str) -> None:
    status, out, err = shell.run_here("run", "http", *words)
    assert (status, out) == (2, "") and is_one_line(err) and said in err


@pytest.fixture
def plain() -> Iterator[Scripted]:
    with scripted(page=whole(b"hello")) as server:
        yield server


def test_password_in_url_is_sent_but_not_stored(shell: Shell, plain: Scripted, tmp_path: Path) -> None:
    url = plain.url.replace("http://", "http://me:geheimnis@")
    run(shell, "-e", f"website:url={url}/page", "--phases", "fresh", "-p", "inflight=2")
    (row,) = rows(shell)
    assert row["valid"]
    assert any(b"Authorization: Basic" in head for head in plain.asked)
    assert "geheimnis" not in shell.file.read_text() + json.dumps(shell.shown())
