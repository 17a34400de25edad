"""Tests that text from outside can't control a terminal: each dangerous character is shown as its escape."""

from __future__ import annotations

import sys

import pytest

from dyno.contracts.sanitize import sanitize


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain, äöü, 日本, 😀", "plain, äöü, 日本, 😀"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("a\rb\0c\x9bd", "a\\rb\\x00c\\x9bd"),
        ("user\u202egnp.exe\u2066", "user\\u202egnp.exe\\u2066"),
        ("\udc80\ud800", "\\udc80\\ud800"),
        ("a\u2028b\u200bc", "a\\u2028b\\u200bc"),
        ("two\nlines\tof it", "two\nlines\tof it"),
    ],
)
def test_only_dangerous_characters_are_escaped(given: str, shown: str) -> None:
    assert sanitize(given) == shown
    assert sanitize(sanitize(given)) == shown


def test_sanitized_text_is_printable_for_every_character() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    made = sanitize(every, most=len(every), keep="")
    assert all(each.isprintable() or each.isspace() for each in made)
    assert not {"\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"} & set(made)
    made.encode()


def test_line_breaks_are_escaped_unless_kept() -> None:
    assert sanitize("two\nlines", keep="") == "two\\nlines"


def test_long_text_is_truncated_with_remaining_count() -> None:
    assert sanitize("x" * 12, most=10) == "x" * 10 + "... (2 characters more)"
    assert sanitize("x" * 10, most=10) == "x" * 10
