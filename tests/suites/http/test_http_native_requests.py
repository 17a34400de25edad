"""Native load encodes URLs and headers as libcurl does, and obeys the same variables for proxies."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from dyno.suites.http.native import encode_head, explain_proxy, origin_of, split_url


def head_of(url: str, *headers: tuple[str, str], length: int | None = None) -> list[str]:
    *lines, end, last = encode_head("GET", split_url(url), headers, length, fresh=False).decode().split("\r\n")
    assert end == last == ""
    return lines


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://example.org", "/", "example.org"),
        ("http://example.org?a=b", "/?a=b", "example.org"),
        ("http://example.org/a?b=c#part", "/a?b=c", "example.org"),
        ("http://example.org:/", "/", "example.org"),
        ("http://user:word@example.org:8080/", "/", "example.org:8080"),
        ("http://[::1]:/", "/", "[::1]"),
        ("http://[::1]:8080/", "/", "[::1]:8080"),
        ("http://example.org//a;b", "//a;b", "example.org"),
    ],
)
def test_target_and_host_are_those_of_the_url(url: str, target: str, host: str) -> None:
    assert head_of(url)[:2] == [f"GET {target} HTTP/1.1", f"Host: {host}"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ""),
        ("/", "/"),
        ("/a/../b/./c", "/b/c"),
        ("/../..", "/"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a//../b", "/a/b"),
        ("/...", "/..."),
    ],
)
def test_dot_segments_are_removed(path: str, expected: str) -> None:
    assert split_url(f"http://example.org{path}").path == expected


def test_port_is_the_schemes_only_if_none_is_named() -> None:
    assert origin_of(urlsplit("http://example.org:0/")) == ("http", "example.org", 0)
    assert origin_of(urlsplit("https://example.org:/")) == ("https", "example.org", 443)


def test_header_that_is_named_twice_is_sent_twice() -> None:
    assert head_of("http://example.org/", ("X", "1"), ("X", "2"))[-2:] == ["X: 1", "X: 2"]


def test_headers_replace_those_of_dyno() -> None:
    head = head_of("http://user@example.org/", ("host", "other"), ("Accept", ""), ("authorization", "Bearer x"))
    assert head[1:] == ["User-Agent: dyno", "host: other", "authorization: Bearer x"]


def test_password_in_the_url_is_sent_as_basic_authorization() -> None:
    assert "Authorization: Basic dTp3IHI=" in head_of("http://u:w%20r@example.org/")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, None),
        ({"http_proxy": "http://proxy"}, "http_proxy"),
        ({"all_proxy": "http://proxy"}, "all_proxy"),
        ({"https_proxy": "http://proxy"}, None),
        ({"http_proxy": "http://proxy", "no_proxy": "example.org"}, None),
    ],
)
def test_proxy_of_a_url_is_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reason = explain_proxy("http://example.org/")
    assert reason is None if named is None else f"unset {named}" in str(reason)
