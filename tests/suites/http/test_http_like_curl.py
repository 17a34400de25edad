"""Compares `dyno http` with the curl command: what the server receives, the output, the files and the exit status."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from httpserving import Scripted, response, scripted, whole
from needed import unavailable
from shell import PATIENCE, Shell, is_one_line, run_in_this_process

FILES = {
    "lines.txt": b"one\r\ntwo\nthree",
    "headers": b"X-One: 1\nX-Two: 2\n",
    "jar": b"# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/\tFALSE\t0\tfromfile\tyes\n",
    "format": b"%{http_code} from a file\\n",
    "with space.bin": bytes(range(256)),
}
STDIN = b"from\nstdin\n"
# Headers that name the program, or depend on libcurl's version: 8.7 sends Expect only with large bodies,
# and the settings of HTTP/2 differ.
OWN = re.compile(rb"(?im)^(user-agent: (curl|dyno)|expect:|http2-settings:).*\r\n")
COMMENTS = re.compile(rb"(?m)^#.*\n")
BOUNDARY = re.compile(rb"-{20,}\w+")
NONCE = re.compile(rb'(cnonce|response)="[^"]*"')


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None:
        unavailable("curl is not installed")
    pytest.importorskip("pycurl")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Echo(Scripted):
    """Records the whole request, and answers with its path."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.failures = 0
        self.tls = tls
        super().__init__({})

    def _answer(self, peer: socket.socket) -> None:
        if self.tls:
            try:
                peer = self.tls.wrap_socket(peer, server_side=True)
            except OSError:
                return
        with peer, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request and (more := peer.recv(65536)):
                request += more
            head, _, body = request.partition(b"\r\n\r\n")
            if b"expect: 100-continue" in head.lower():
                peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(body) < int(length[1]) and (more := peer.recv(65536)):
                body += more
            if head:
                certificate = str(peer.getpeercert()) if isinstance(peer, ssl.SSLSocket) else ""
                self.asked.append(head + b"\r\n\r\n" + body + certificate.encode())
            path = head.split()[1].decode().partition("?")[0] if head else ""
            reply = {
                "/missing": response(b"gone", "404 Not Found"),
                "/moved": response(b"moving", "302 Found", "Location: /page", "Set-Cookie: hop=1"),
                "/cookie": response(b"baked", "200 OK", "Set-Cookie: a=b; Path=/", "Content-Type: text/plain"),
            }.get(path, response(f"body of {path}\n".encode(), "200 OK", "X-Own: yes"))
            if path == "/secret" and b"authorization:" not in head.lower():
                reply = response(b"who?", "401 Unauthorized", 'WWW-Authenticate: Digest realm="r", nonce="n"')
            if path == "/late":
                self.over.wait(PATIENCE)
            if path == "/flaky":
                self.failures += 1
                if self.failures % 2:
                    reply = response(b"later", "503 Service Unavailable", "Retry-After: 1")
            peer.sendall(reply.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if head.startswith(b"HEAD") else reply)
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_WR)

    @contextlib.contextmanager
    def at_unix_socket(self, path: Path) -> Iterator[None]:
        """Answers one client after another at a Unix socket too."""

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    self._answer(listening.accept()[0])

        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            threading.Thread(target=serve, daemon=True).start()
            yield
            listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def tls_echo(authority: Authority) -> Iterator[Echo]:
    """An echo server with TLS that asks for a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate, authority.key)
    context.load_verify_locations(authority.authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = Echo(context)
    yield server
    server.close()


def outcome(echo: Echo, home: Path, command: str, options: Sequence[str]) -> dict[str, Any]:
    """Runs 'curl' or 'http', Dyno's command, in a fresh directory. Returns everything that it sent, printed and
    wrote."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name, content in FILES.items():
        (home / name).write_bytes(content)
    before = len(echo.asked)
    words = [word.replace("URL", echo.url).replace("PORT", str(echo.port)) for word in options]
    if command == "curl":
        ended = subprocess.run(["curl", *words], cwd=home, input=STDIN, capture_output=True, timeout=100)
    else:
        ended = run_in_this_process([command, *words], home, os.environ, STDIN)
    requests = []
    for request in echo.asked[before:]:
        head, _, body = NONCE.sub(b"", OWN.sub(b"", BOUNDARY.sub(b"BOUNDARY", request))).partition(b"\r\n\r\n")
        start, *headers = head.split(b"\r\n")
        if b"BOUNDARY" in body:
            # The length of the boundary depends on libcurl's version.
            headers = [line for line in headers if not line.startswith(b"Content-Length")]
        requests.append((start, sorted(headers), body))
    files = {path.name: path.read_bytes() for path in home.iterdir() if path.name not in FILES}
    return {
        "requests": requests,
        "output": COMMENTS.sub(b"", ended.stdout),
        "status": ended.returncode,
        "files": {name: COMMENTS.sub(b"", content) for name, content in files.items()},
        "errors": len(ended.stderr.splitlines()),
    }


COMMANDS = ("curl", "http")
LIKE = [
    "-o /dev/null -w %{time_total}",
    "-H @headers",
    "-H @- -H X-Three:3",
    "-H Accept: -H X-Empty;",
    "-A ''",
    "-d a=1 -d b=2",
    "-d @lines.txt",
    "-d @-",
    "-d a -d @lines.txt --data-raw @lines.txt --data-binary @lines.txt",
    "--data-raw @x",
    "--data-binary @lines.txt",
    "--data-binary @-",
    "--data-urlencode a=b&c/é~",
    "--data-urlencode 'a b'",
    "--data-urlencode '=a b'",
    "--data-urlencode name@lines.txt",
    "--data-urlencode @lines.txt -d after=1",
    "-d first -d '' --data-urlencode x@- -d last",
    "-G -d a=1 --data-urlencode 'b=c d'",
    "-I -G -d a=1",
    "--json '{\"a\": 1}'",
    "--json @lines.txt --json '[]' -H 'Accept: x/y'",
    "-F a=1 -F file=@lines.txt -F 'text=<lines.txt'",
    "-F 'a=1;type=text/x' -F 'file=@with space.bin;filename=other;type=image/png'",
    "-F a=@missing",
    "-T lines.txt URL/",
    "-T lines.txt URL",
    "-T 'with space.bin' URL/dir/",
    "-T lines.txt URL/dir/name",
    "-b jar",
    "-b jar -b a=1 -b b=2",
    "-b nosuchfile",
    "-c cookies URL/cookie",
    "-c - URL/cookie",
    "-c - -w %{http_code} -o file URL/cookie",
    "-L -c cookies URL/moved",
    "-b '' -L URL/moved",
    "-D head",
    "-D -",
    "-D head -L URL/moved",
    "-i",
    "-i -L URL/moved",
    "-i URL/moved",
    "-I",
    "-I -o head",
    "-i -o file",
    "-o -",
    "-o file",
    "-L -o file URL/moved",
    "-0",
    "-g URL/{a}[1-2]",
    "--url URL/page",
    "--digest -u u:p URL/secret",
    "--digest -u u:p -i URL/secret",
    "--oauth2-bearer token",
    "--limit-rate 100K",
    "--limit-rate 1m -d a=1",
    "--retry 2 URL/flaky",
    "--retry 1 -f URL/missing",
    "-f URL/missing",
    "-f -S URL/missing",
    "URL/missing",
    "http://127.0.0.1:1/",
    "-S http://127.0.0.1:1/",
    "-X DELETE -d x",
    "-w '%{http_code} %{response_code} %{content_type}|%{size_download} %{size_header}\\n' URL/cookie",
    "-w '%{num_redirects} %{redirect_url} %{num_connects} %{http_version}\\t%%%{method}' URL/moved",
    "-w '%{num_redirects} %{url_effective} %{size_download}|%{redirect_url}' -L URL/moved",
    "-w '%{remote_ip}:%{remote_port} %{local_ip} %{exitcode} %{ssl_verify_result} %{http_connect}'",
    "-w '%{http_code} %{http_version} %{exitcode} %{remote_port} %{time_connect}' http://127.0.0.1:1/",
    "-w '%{size_upload} %{http_version} %q %' -o file -e r -d abc",
    "-w @format",
    "-e from.invalid",
    "-u user:pass",
    "-r 2-5",
    "-m 50",
    "-m 0.2 URL/late",
    "--connect-timeout 50",
    "-L --max-redirs 0 URL/moved",
    "-L --max-redirs 1 URL/moved",
    "--max-filesize 3",
    "--max-filesize 3000",
    "--resolve named.invalid:PORT:127.0.0.1 http://named.invalid:PORT/page",
    "--connect-to named.invalid:80:127.0.0.1:PORT http://named.invalid/page",
    "http://named.invalid/",
    "-x URL http://named.invalid/page",
    "-x http://127.0.0.1:1 --noproxy 127.0.0.1 URL/page",
    "-x http://127.0.0.1:1 URL/page",
    "--interface lo",
    "--interface nosuch0",
    "--unix-socket SOCKET http://named.invalid/page",
    "--unix-socket nosuch",
    "-4",
    "-6 http://localhost:PORT/",
    "--http1.1",
    "--http2",
    "-X PUT",
]
SECURE = [
    "",
    "-k",
    "--cacert AUTHORITY",
    "--cacert AUTHORITY -E CERTIFICATE --key KEY",
    "--cacert CERTIFICATE -4",
    "-k --tlsv1.2",
    "-k --tlsv1.3",
    "-k --http1.1",
    "-k --http2",
    "-k -w '%{ssl_verify_result} %{scheme} %{http_version}'",
]


def words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("options", LIKE)
def test_option_behaves_as_in_curl(echo: Echo, tmp_path: Path, options: str) -> None:
    given = ["-s", *words(options)]
    if not any("URL" in word or "://" in word for word in given):
        given.append("URL/page")
    if "-w" not in given:
        # Print as curl does.
        given += ["-w", ""]
    with echo.at_unix_socket(tmp_path / "socket"):
        given = [word.replace("SOCKET", str(tmp_path / "socket")) for word in given]
        curl, dyno = (outcome(echo, tmp_path / "home", command, given) for command in COMMANDS)
    if "time_" in options:
        for each in (curl, dyno):
            assert re.search(rb"\d\.\d{6}$", each["output"])
            each["output"] = re.sub(rb"\d\.\d{6}", b"TIME", each["output"])
    assert dyno == curl


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("options", SECURE)
def test_option_behaves_as_in_curl_over_tls(
    tls_echo: Echo, authority: Authority, tmp_path: Path, options: str
) -> None:
    files = {"AUTHORITY": authority.authority, "CERTIFICATE": authority.certificate, "KEY": authority.key}
    given = ["-s", "-w", "", f"https://127.0.0.1:{tls_echo.port}/page"]
    given[1:1] = [str(files.get(word, word)) for word in words(options)]
    curl, dyno = (outcome(tls_echo, tmp_path / "home", command, given) for command in COMMANDS)
    assert dyno == curl


REFUSED = {
    "-w %{json} URL/": "json",
    "-w %{time_totl} URL/": "time_total",
    "-w %header{x} URL/": "--write-out",
    "-F a URL/": "NAME=VALUE",
    "-F a=@x,y URL/": "NAME=@FILE",
    "-F a=x;headers=y URL/": ";type=",
    "-F a=@- URL/": "NAME=@FILE",
    "-F a=<- URL/": "NAME=<FILE",
    "URL/{a,b}": "-g",
    "URL/[1-3]": "-g",
    "URL/a URL/b": "got 2",
    "-s": "got 0",
    "--limit-rate fast URL/": "100K",
    "--retry -1 URL/": "--retry",
    "-I -d x URL/": "exclude",
    "-d x -F a=b URL/": "exclude",
    "-i -n 2 URL/": "-n",
    "-o - --human URL/": "--human",
    "-w %header{scheme} URL/": "-D",
    "-d @missing URL/": "missing",
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("options", REFUSED)
def test_unsupported_arguments_are_refused_in_one_line(echo: Echo, shell: Shell, options: str) -> None:
    status, out, err = shell.dyno(
        "http", *(word.replace("URL", echo.url) for word in words(options.replace(";", "\\;")))
    )
    assert (status, out) == (2, "") and is_one_line(err) and REFUSED[options] in err


@pytest.mark.usefixtures("processes")
def test_verbose_prints_request_and_response_heads_to_stderr(echo: Echo, shell: Shell) -> None:
    status, out, err = shell.dyno("http", "-v", f"{echo.url}/page")
    assert status == 0 and out.startswith("{")
    assert "> GET /page HTTP/1.1" in err and "< X-Own: yes" in err


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("flags", "shown"), [("", True), ("-s", False), ("-sS", True)])
def test_error_visibility_follows_silent_flags_as_in_curl(shell: Shell, flags: str, shown: bool) -> None:
    status, out, err = shell.dyno("http", *words(flags), "-o", "-", "http://127.0.0.1:1/")
    assert (status, out) == (7, "") and ("(7)" in err) == shown


@pytest.mark.usefixtures("processes")
def test_retries_are_in_the_record(echo: Echo, shell: Shell) -> None:
    echo.failures = 0
    status, out, _ = shell.dyno("http", "--retry", "2", f"{echo.url}/flaky")
    record = json.loads(out)
    assert (status, record["http_code"]) == (0, 200) and "attempt 2" in record["doubts"][-1]


@pytest.mark.usefixtures("processes")
def test_redirect_to_another_port_drops_token_and_cookie(echo: Echo, shell: Shell) -> None:
    with scripted(away=whole(b"", "302 Found", f"Location: {echo.url}/page")) as first:
        secrets = ("--oauth2-bearer", "secret", "-b", "a=secret")
        assert shell.dyno("http", "-L", *secrets, f"{first.url}/away").status == 0
        assert first.asked[-1].count(b"secret") == 2 and b"secret" not in echo.asked[-1]
