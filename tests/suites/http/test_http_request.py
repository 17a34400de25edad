"""Tests `dyno http` and `dyno.http.request` on scripted servers."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from httpserving import Scripted, cut, response, scripted, whole
from needed import unavailable
from shell import COMMAND, Shell, is_one_line

from dyno import http
from dyno.contracts.model import UsageError
from dyno.engines.s3 import engine_nginx
from dyno.suites import http as suite
from dyno.suites.http.client import MOMENTS
from dyno.suites.http.options import Options, follow_redirect
from dyno.suites.http.stages import STAGES, Moments, fine, stages, summarize_requests, summary

# Fields of the record in the article: Cloud Mercato, New HTTP benchmark tool: pycurlb.
ARTICLE = """
appconnect_time compressed connect_time connect_timeout content_length_download content_length_upload content_type
effective_url header_size http_code http_connectcode httpauth_avail local_ip local_port max_time method
namelookup_time num_connects os_errno pretransfer_time primary_ip primary_port proxyauth_avail redirect_count
redirect_time redirect_url request_size size_download size_upload speed_download speed_upload ssl_engines
ssl_verifyresult starttransfer_time total_time
"""


@pytest.fixture(autouse=True)
def _libcurl(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import pycurl  # noqa: F401
    except ImportError:
        unavailable("pycurl is not installed")
    # The tests' servers are on this machine, so requests must not go to a proxy.
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    with scripted(
        page=whole(b"hello"),
        large=whole(b"hello" * 100_000),
        moved=whole(b"", "302 Found", "Location: /page"),
        loop=whole(b"", "302 Found", "Location: /loop"),
        cut=cut,
        nonsense=lambda peer: peer.sendall(b"\x00\x01 this is no HTTP\r\n\r\n"),
        lines=lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\n" + b"X-Line: x\r\n" * 100_000 + b"\r\n"),
    ) as made:
        made.answers = {**made.answers, "/stalled": made.stall, "/endless": made.endless}
        yield made


def adds_up(record: dict[str, Any]) -> None:
    """Checks that the stages add up to the total time, in the record and in each hop."""
    for part in (record, *record["hops"]):
        spent = sum(seconds for seconds in part["stages"].values() if seconds is not None)
        assert spent == pytest.approx(part["total_time"], abs=1e-7)
        assert all(seconds is None or seconds >= 0 for seconds in part["stages"].values())
    assert sum(hop["total_time"] for hop in record["hops"]) == pytest.approx(record["total_time"], abs=1e-7)


# -- the record ----------------------------------------------------------------------------------------------------


def test_record_has_pycurlb_fields_and_stages_add_up(server: Scripted) -> None:
    record = http.request(f"{server.url}/page")
    assert set(record) >= {*ARTICLE.split()}
    assert (record["http_code"], record["size_download"], record["method"]) == (200, 5, "GET")
    assert (record["error"], record["exitcode"], record["num_connects"]) == (None, 0, 1)
    assert (record["primary_ip"], record["primary_port"]) == ("127.0.0.1", server.port)
    adds_up(record)
    moments = [record[f"{name}_time"] for name in MOMENTS if record[f"{name}_time"] is not None]
    assert moments == sorted(moments) and moments[-1] <= record["total_time"]


def test_inapplicable_fields_are_null(server: Scripted) -> None:
    record = http.request(f"{server.url}/page")
    unknown = ("appconnect_time", "redirect_time", "max_time", "ssl_verifyresult", "redirect_url")
    assert {name: record[name] for name in unknown} == dict.fromkeys(unknown)
    assert record["stages"]["tls"] is None and record["stages"]["tcp"] is not None
    assert json.loads(json.dumps(record)) == record


def test_each_redirect_hop_is_timed_separately(server: Scripted) -> None:
    record = http.request(f"{server.url}/moved", location=True)
    assert [hop["http_code"] for hop in record["hops"]] == [302, 200]
    assert [hop["url"].rpartition("/")[2] for hop in record["hops"]] == ["moved", "page"]
    assert (record["redirect_count"], record["http_code"], record["size_download"]) == (1, 200, 5)
    assert record["redirect_time"] == pytest.approx(record["hops"][0]["total_time"])
    adds_up(record)


SECRETS: list[dict[str, Any]] = [
    {"header": ["Authorization: Bearer secret"]},
    {"header": ["cookie: secret=1"]},
    {"header": ["Authorization: Bearer secret", "Cookie: secret=1", "X-Own: yes"]},
    {"user": "secret:p"},
    {"cookie": "secret=1"},
]


@pytest.mark.parametrize("options", SECRETS, ids=str)
def test_redirect_to_another_port_drops_secrets(server: Scripted, options: dict[str, Any]) -> None:
    """The next request of the same client to the first server has the secrets again."""
    with scripted() as first, http.Client(Options.from_dict({"location": True, **options})) as client:
        first.answers = {
            "/away": whole(b"", "302 Found", f"Location: {server.url}/page"),
            "/back": whole(b"", "302 Found", "Location: /page"),
        }
        for _ in range(2):
            assert client.request(f"{first.url}/away")["redirect_count"] == 1
            head = server.asked[-1].lower()
            assert b"authorization:" not in head and b"cookie:" not in head
            assert (b"x-own: yes" in head) == ("X-Own: yes" in options.get("header", ()))
        client.request(f"{first.url}/back")
        assert len(first.asked) == 4
        assert all(b"authorization:" in head.lower() or b"cookie:" in head.lower() for head in first.asked)


def test_redirect_is_not_followed_by_default(server: Scripted) -> None:
    record = http.request(f"{server.url}/moved")
    assert (record["http_code"], record["redirect_count"]) == (302, 0)
    assert record["redirect_url"] == f"{server.url}/page"


def test_request_options_reach_the_server(server: Scripted) -> None:
    http.request(f"{server.url}/page", data="a=1", header=["X-Own: yes"], user_agent="mine", cookie="c=2", user="u:p")
    head, _, body = server.asked[-1].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /page ") and body in (b"a=1", b"")
    for line in (
        b"X-Own: yes",
        b"User-Agent: mine",
        b"Cookie: c=2",
        b"Authorization: Basic dTpw",
        b"Content-Length: 3",
    ):
        assert line in head.split(b"\r\n")
    assert http.request(f"{server.url}/page", head=True)["size_download"] == 0
    http.request(f"{server.url}/page", data="a=1", get=True, request="FETCH")
    assert server.asked[-1].startswith(b"FETCH /page?a=1 ")


def test_response_body_is_written_to_the_output_path(server: Scripted, tmp_path: Path) -> None:
    record = http.request(f"{server.url}/moved", location=True, output=tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == b"hello" and record["size_download"] == 5
    for place, why in ((tmp_path, "Is a directory"), ("/dev/full", "No space left on device")):
        for path in ("/page", "/large"):
            with pytest.raises(UsageError, match=f"^can't write {place}: {why}$"):
                http.request(f"{server.url}{path}", output=Path(place))
    assert http.request(f"{server.url}/moved", location=True, output=Path("/dev/null"))["size_download"] == 5


def test_text_outside_ascii_is_sent_as_utf_8(server: Scripted, shell: Shell) -> None:
    words = {
        "--header": "X-Own: café",
        "--cookie": "c=é",
        "--user-agent": "ü",
        "--referer": "ö",
        "--user": "ü:é",
        "--data": "ß",
    }
    given = [word for pair in words.items() for word in pair]
    status, _, err = shell.dyno("http", f"{server.url}/page", *given)
    assert (status, err) == (0, "")
    head, _, body = server.asked[-1].partition(b"\r\n\r\n")
    lines = ["X-Own: café", "Cookie: c=é", "User-Agent: ü", "Referer: ö", "Content-Length: 2"]
    assert set(head.split(b"\r\n")) >= {*map(str.encode, lines), b"Authorization: Basic w7w6w6k="}
    assert body in ("ß".encode(), b"")
    # Bytes that are not UTF-8 are sent unchanged.
    assert shell.dyno("http", f"{server.url}/page", "-H", "X: \udce9").status == 0
    assert b"X: \xe9" in server.asked[-1].split(b"\r\n")


def test_a_url_outside_ascii_is_encoded(server: Scripted) -> None:
    port = server.port
    where = {"resolve": [f"xn--mnchen-3ya.example:{port}:127.0.0.1"], "proxy": ""}
    for url, options in (
        (f"http://München.example:{port}/é?ü=1", {}),
        (f"http://münchen.example:{port}/é", {"data": "ü=1".encode(), "get": True}),
    ):
        record = http.request(url, **where, **options)
        assert record["effective_url"].startswith(f"http://xn--mnchen-3ya.example:{port}/%C3%A9?%C3%BC=")
        assert server.asked[-1].startswith(b"GET /%C3%A9?%C3%BC=1 HTTP/1.1\r\n")
    with scripted(moved=whole(b"", "302 Found", f"Location: http://münchen.example:{port}/é")) as first:
        moved = http.request(f"{first.url}/moved", location=True, **where)
    assert moved["error"] is None and moved["hops"][1]["url"] == f"http://xn--mnchen-3ya.example:{port}/%C3%A9"


def test_non_utf8_response_header_is_shown_escaped(shell: Shell) -> None:
    def latin(name: str) -> bytes:
        return response(b"", "302 Found", f"{name}: http://é.example/é").decode().encode("latin-1")

    with scripted() as server:
        server.answers = {
            "/type": lambda peer: peer.sendall(latin("Content-Type")),
            "/moved": lambda peer: peer.sendall(latin("Location")),
        }
        status, out, err = shell.dyno("http", f"{server.url}/type")
        assert (status, err) == (0, "") and json.loads(out)["content_type"] == "http://\\xe9.example/\\xe9"
        status, out, err = shell.dyno("http", f"{server.url}/moved", "-L")
        assert (status, err) == (1, "") and json.loads(out)["error"]


@pytest.mark.usefixtures("processes")
def test_output_to_pipe_or_run_file_is_refused(server: Scripted, shell: Shell) -> None:
    os.mkfifo(shell.home / "pipe")
    (shell.home / "r.json").write_text('{"kind":"run","schema":3}\n')
    for place, why in (
        ("pipe", "it is a pipe"),
        (".", "it is a directory"),
        ("none/there", "No such file"),
        ("r.json", "that is a run file"),
    ):
        status, out, err = shell.dyno("http", f"{server.url}/page", "-o", place)
        assert (status, out) == (2, "") and is_one_line(err) and why in err
    assert (shell.home / "r.json").read_text().startswith('{"kind":"run"')
    assert shell.dyno("http", f"{server.url}/page", "-o", "/dev/null").status == 0


# -- failed requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "exitcode", "stage"),
    [
        # The error code of a malformed response depends on the version of libcurl.
        ("cut", 18, "transfer"),
        ("nonsense", None, None),
        ("endless", None, None),
        ("lines", None, None),
        ("stalled", 28, "transfer"),
        ("loop", 47, None),
    ],
)
def test_failed_request_yields_record_with_error(
    server: Scripted, path: str, exitcode: int | None, stage: str | None
) -> None:
    limits = {"max_time": 0.5} if path == "stalled" else {"max_time": 60}
    record = http.request(f"{server.url}/{path}", location=True, max_redirs=5, **limits)
    assert record["error"] and "\n" not in record["error"]
    assert record["exitcode"] > 0 and exitcode in (None, record["exitcode"])
    adds_up(record)
    if stage is not None:
        assert [name for name, spent in record["stages"].items() if spent is not None][-1] == stage
    assert len(record["hops"]) == (6 if path == "loop" else 1)


def test_refused_connection_and_unknown_host_are_errors(server: Scripted) -> None:
    with scripted() as gone:
        pass
    refused = http.request(f"http://127.0.0.1:{gone.port}/")
    assert refused["exitcode"] == 7 and refused["stages"]["tcp"] is not None and refused["stages"]["wait"] is None
    nobody = http.request("http://nobody.invalid/", proxy="")
    assert nobody["exitcode"] == 6 and nobody["http_code"] is None
    assert {name for name, spent in nobody["stages"].items() if spent is not None} == {"lookup"}
    adds_up(nobody)


def test_untrusted_certificate_is_refused_unless_insecure(shell: Shell, place: Path) -> None:
    if lacking := engine_nginx.explain_unavailability(tls=True):
        unavailable(f"nginx: {lacking}")
    with closing(engine_nginx.Nginx(place, tls=True, workers=1)) as serving:
        serving.start()
        (serving.root / "page").write_text("hello")
        url = f"{serving.address.url}/page"
        status, out, err = shell.dyno("http", url)
        record = json.loads(out)
        assert (status, err, record["http_code"], record["exitcode"]) == (1, "", None, 60)
        assert "certificate" in record["error"] and is_one_line(record["error"] + "\n")
        # Stages up to the failure have times, and later stages have none.
        assert record["stages"]["tcp"] is not None and record["stages"]["transfer"] is None
        adds_up(record)
        status, out, err = shell.dyno("http", url, "-k")
        record = json.loads(out)
        assert (status, record["http_code"], record["error"]) == (0, 200, None)
        assert record["ssl_verifyresult"] != 0 and record["http_version"] == "2"
        assert record["stages"]["tls"] > 0
        adds_up(record)


def test_http_error_status_fails_only_with_fail_option(server: Scripted) -> None:
    assert http.request(f"{server.url}/none")["error"] is None
    assert http.request(f"{server.url}/none", fail=True)["exitcode"] == 22


# -- refused requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://example.org/", {}, "scheme ftp"),
        ("http://", {}, "is no address"),
        ("http://example.org:port/", {}, "is no address"),
        ("http://exa mple.org/", {}, "is no address"),
        ("http://é..example/", {}, "is no address"),
        ("http://faß.example/", {}, "U.00DF .* xn--"),
        ("http://example.org/", {"proxy": "http://me:p@é..example:1/"}, "^--proxy http://me:[*]{3}@.* is no address"),
        ("http://example.org/", {"http2": True, "http1_1": True}, "--http1.1 and --http2 exclude each other"),
        ("http://example.org/", {"head": True, "data": "x"}, "exclude each other"),
        *(
            (
                "http://example.org/",
                {"resolve": [text]},
                "--resolve: expected an address like example.org:443:127.0.0.1",
            )
            for text in ("", "a", "a:b:127.0.0.1", "a:80", "a:80:", "a b:80:127.0.0.1", "-a", "[::1]:x:::1")
        ),
        *(
            (
                "http://example.org/",
                {"connect_to": [text]},
                "--connect-to: expected an address like example.org:443:",
            )
            for text in ("", "a:80", "a:80:b:c", "a:80:b:80:c")
        ),
        ("http://example.org/", {"max_time": 0}, "--max-time: expected seconds .* got 0"),
        ("http://example.org/", {"max_redirs": -1}, "--max-redirs: expected .* got -1"),
        ("http://example.org/", {"cacert": Path("/nonexistent")}, "there is no file"),
        ("http://example.org/", {"header": ["A: b\r\nC: d"]}, "line ends and zero bytes"),
        ("http://example.org/", {"max_tim": 5}, "did you mean max_time"),
    ],
)
def test_invalid_request_is_refused_in_one_line(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        http.request(url, **options)
    assert "\n" not in str(raised.value)


def test_unstarted_request_has_plausible_total_time() -> None:
    """If libcurl doesn't begin a request, it reports the time since the machine was started as the request's time."""
    for url, resolve in (("http://a=b/", []), ("http://example.org/", ["example.org:80:nowhere"])):
        record = http.request(url, resolve=resolve)
        assert record["exitcode"] and record["error"] and record["effective_url"] in (None, url)
        assert 0 <= record["total_time"] < 60
        assert not [record[name] for name in ("http_code", "primary_port", "local_port") if record[name] is not None]
        (hop,) = record["hops"]
        assert hop["total_time"] == record["total_time"]
        assert sum(filter(None, hop["stages"].values())) == pytest.approx(hop["total_time"])


# -- stages, percentiles and redirects -----------------------------------------------------------------------------


def test_stages_are_the_differences_of_moments() -> None:
    at = Moments(5_520_988, 5_581_115, 5_673_696, 5_673_749, 5_673_749, 5_741_810, 5_741_879)
    # The article has these values.
    assert stages(at, secure=True, fresh=True) == {
        "lookup": 5_520_988,
        "tcp": 60_127,
        "tls": 92_581,
        "send": 53,
        "wait": 68_061,
        "transfer": 69,
    }
    reused = stages(Moments(0, 0, 0, 40, 45, 100, 150), secure=True, fresh=False)
    assert reused == {"lookup": None, "tcp": None, "tls": None, "send": 45, "wait": 55, "transfer": 50}
    # A response may begin before the whole request is sent.
    assert stages(Moments(1, 2, 0, 3, 90, 50, 100), secure=False, fresh=True)["wait"] == 0


@pytest.mark.parametrize(
    ("at", "last"),
    [
        (Moments(0, 0, 0, 0, 0, 0, 100), "lookup"),
        (Moments(None, 0, 0, 0, 0, 0, 100), "tcp"),
        (Moments(10, 20, 0, 0, 0, 0, 100), "tls"),
        (Moments(10, 20, 30, 0, 0, 0, 100), "send"),
        (Moments(10, 20, 30, 40, 40, 0, 100), "wait"),
        (Moments(10, 20, 30, 40, 40, 50, 100), "transfer"),
    ],
)
def test_failed_stage_lasts_until_the_failure(at: Moments, last: str) -> None:
    found = stages(at, secure=True, fresh=True, failed=True)
    known = {name: spent for name, spent in found.items() if spent is not None}
    assert [*known][-1] == last and sum(known.values()) == 100


def test_stages_below_clock_resolution_are_listed() -> None:
    long = dict.fromkeys(STAGES, 10)
    assert fine([long]) == []
    assert fine([{**long, "wait": 9, "tls": None}, {**long, "tcp": 0}]) == ["tcp", "wait"]


def test_redirect_to_another_host_drops_secret_options() -> None:
    options_sent = Options(data="x", user="u:p", cookie=["c=1"], header=["Authorization: secret", "X-Own: yes"])
    same = follow_redirect(options_sent, 302, "http://a/1", "http://a:80/2")
    assert (same.method, same.user, same.cookie, len(same.header)) == ("GET", "u:p", ["c=1"], 2)
    other = follow_redirect(options_sent, 307, "http://a/1", "https://a/2")
    assert (other.method, other.user, other.cookie, list(other.header)) == ("POST", None, (), ["X-Own: yes"])
    named = Options(header=["Host: a.example"])
    assert follow_redirect(named, 302, "http://a/", "http://a:81/").header == ["Host: a.example"]
    assert follow_redirect(named, 302, "http://a/", "http://b/").header == []


def test_a_percentile_with_few_values_beyond_is_null() -> None:
    assert summary([]) is None
    few = summary([float(at) for at in range(1, 51)])
    assert few is not None and (few["p50"], few["p90"], few["p99"]) == (25.0, 45.0, None)
    many = summary([float(at) for at in range(1, 1001)])
    assert many is not None and (many["p99"], many["p999"]) == (990.0, None)


def test_repeated_requests_are_counted_by_outcome(server: Scripted) -> None:
    with http.Client(Options.from_dict({"max_time": 60})) as client:
        records = [client.request(f"{server.url}/{path}") for path in ("page", "none", "cut", "page")]
    found = summarize_requests(records, server.url)
    assert (found["count"], found["failed"], found["http_codes"]) == (4, 1, {"200": 2, "404": 1})
    assert len(found["errors"]) == 1 and found["stages"]["tls"] is None
    assert found["stages"]["wait"]["count"] == found["total_time"]["count"] == 3


# -- the command ---------------------------------------------------------------------------------------------------


def test_exit_status_tells_whether_the_request_failed(server: Scripted, shell: Shell) -> None:
    status, out, err = shell.dyno("http", f"{server.url}/moved", "-L", "-m", "60")
    record = json.loads(out)
    assert (status, err, record["http_code"], record["max_time"]) == (0, "", 200, 60.0)
    status, out, err = shell.dyno("http", f"{server.url}/cut")
    assert (status, err) == (1, "") and json.loads(out)["error"]
    status, out, err = shell.dyno("http", f"{server.url}/loop", "-L", "--max-redirs", "3", "--human")
    assert status == 1 and "error: Maximum (3) redirects followed" in out
    status, out, err = shell.dyno("http", "gopher://x/")
    assert status == 2 and out == "" and is_one_line(err)


def test_while_option_measures_idle_and_loaded(shell: Shell, server: Scripted, tmp_path: Path) -> None:
    started = tmp_path / "started"
    command = f"sh -c 'touch {started}; exec sleep 60'"
    status, out, _ = shell.dyno("http", f"{server.url}/page", "-n", "5", "--while", command)
    record = json.loads(out)
    assert (status, list(record)) == (0, ["idle", "loaded"]) and started.exists()
    assert [each["count"] for each in record.values()] == [5, 5]
    assert shell.strays() == []
    # One that ignores SIGTERM, and has a child that does too.
    stubborn = """sh -c 'trap "" TERM; sleep 61 & wait; wait'"""
    assert shell.dyno("http", f"{server.url}/page", "-n", "5", "--while", stubborn).status == 0
    assert shell.strays() == []
    assert not [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "61"]]
    wrong = (["-n", "5", "--while", "true"], ["-n", "5", "--while", "/none"], ["-n", "5", "--while", ""])
    for words in (*wrong, ["--while", "sleep 9"]):
        status, out, err = shell.dyno("http", f"{server.url}/page", *words)
        assert (status, out) == (2, "") and is_one_line(err) and "--while" in err


@pytest.mark.parametrize("name", ["Authorization", "cookie", "X-Api-Key", "X-Auth-Token", "Client-Secret"])
def test_secret_header_is_refused_by_http_suite(name: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        suite.headers(f"Accept: text/html\\n{name}: geheimnis")
    assert suite.headers("Accept: text/html\\nCache-Control: no-cache")


def test_the_command_repeats_and_shows_a_waterfall(server: Scripted, shell: Shell) -> None:
    status, out, _ = shell.dyno("http", f"{server.url}/page", "-n", "20")
    found = json.loads(out)
    assert (status, found["count"], found["reused"], found["stages"]["tcp"]["count"]) == (0, 20, 0, 20)
    status, out, _ = shell.dyno("http", f"{server.url}/moved", "-L", "--human")
    lines = out.splitlines()
    assert status == 0 and sum(line.startswith("GET ") for line in lines) == 2
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [*STAGES, *STAGES]
    status, out, _ = shell.dyno("http", f"{server.url}/page", "-n", "20", "--human")
    assert status == 0 and "20 × 200" in out


def test_url_password_is_never_printed(server: Scripted, shell: Shell) -> None:
    url = server.url.replace("http://", "http://me:geheimnis@")
    for words in ([url + "/page"], [url + "/page", "-n", "2"], [url + "/page", "--human"], [url + "/cut", "--human"]):
        _, out, err = shell.dyno("http", *words)
        assert "geheimnis" not in out + err


def test_endless_header_uses_bounded_memory(server: Scripted, shell: Shell) -> None:
    """The command's address space is limited to 2 GB."""
    command = " ".join([*COMMAND, "http", f"{server.url}/endless"])
    status, out, err = shell.sh("sh", "-c", f"ulimit -v 2000000; exec {command}")
    assert (status, err) == (1, "") and json.loads(out)["error"]


def test_a_request_that_waits_can_be_interrupted(server: Scripted, shell: Shell) -> None:
    with shell.started("http", f"{server.url}/stalled") as process:
        before = len(server.asked)
        while not any(b"/stalled" in head for head in server.asked[before:]):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and err == "dyno: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_unanswered_tls_handshake_can_be_interrupted(shell: Shell, number: signal.Signals) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        shell.started("http", f"https://127.0.0.1:{silent.getsockname()[1]}/") as process,
    ):
        peer, _ = silent.accept()
        with peer:
            assert peer.recv(1)
            process.send_signal(number)
            _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and err == "dyno: interrupted\n"
