"""Standard output and standard error as commands may rely on them: open, ready for any character, and never raising.

What can't be written is remembered, and said once at the end. What a stream's encoding does not have is replaced by
what reads alike.
"""

from __future__ import annotations

import codecs
import errno
import io
import locale
import os
import select
import sys
import unicodedata
from contextlib import suppress
from typing import Any, TextIO

UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8")
ALIKE = {
    **dict.fromkeys("–—−‐‑‒―─━", "-"),
    **dict.fromkeys("│┃▏▎", "|"),
    **dict.fromkeys("▍▌▋▊▉█", "#"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰†", "+"),
    # Braille is what turns while one waits.
    **dict.fromkeys(["·", "•", *map(chr, range(0x2801, 0x2900))], "."),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”", '"'),
    "µ": "u",
    "μ": "u",
    "×": "x",
    "→": "->",
    "±": "+-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
}
"""What the reports print beside ASCII, and its like."""


def _alike(error: UnicodeError) -> tuple[str, int]:
    """Replaces one character that can't be encoded. What takes more room than it had, takes blanks that follow, so
    that the columns of a table still stand below each other.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, at = error.object, error.start
    made, end = like(text[at]), at + 1
    room = len(made) - _columns(text[at])
    while room > 0 and text[end : end + 2] == "  ":
        room, end = room - 1, end + 1
    return made, end


def like(character: str) -> str:
    """ASCII for a character: its like, or its base without accents, or a question mark in each of its columns."""
    if character in ALIKE:
        return ALIKE[character]
    if "\udc80" <= character <= "\udcff":
        # A byte of a file's name that is no text.
        return f"\\x{ord(character) - 0xDC00:02x}"
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return base or "?" * _columns(character)


def _columns(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class _Descriptor(io.FileIO):
    """Where a stream's bytes go. After a failure they go nowhere."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        whole = memoryview(data).nbytes
        if self.failed is not None:
            return whole
        try:
            while (written := super().write(data)) is None:
                # Someone has made it one that does not wait.
                select.select([], [self], [])
        except OSError as error:
            self.failed = error
            return whole
        return written


def prepare() -> None:
    """Puts such streams in the place of Python's. To be called before anything is opened."""
    codecs.register_error("alike", _alike)
    for descriptor in range(3):
        _hold(descriptor)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    _decode_files_as_utf8()


def _decode_files_as_utf8() -> None:
    """Makes UTF-8 the default encoding of files and pipes: under LC_ALL=POSIX it is ASCII, which Dyno's
    own files and the output of programs are not. The streams keep the encoding of the terminal."""
    if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
        for name in UTF8_LOCALES:
            with suppress(locale.Error):
                locale.setlocale(locale.LC_CTYPE, name)
                return


def _hold(descriptor: int) -> None:
    """One that is closed is opened, for what it is not for: a file that takes its number would be written to."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDONLY if descriptor else os.O_WRONLY)


def _stream(descriptor: int, before: TextIO | None) -> TextIO:
    raw = _Descriptor(descriptor, "wb", closefd=False)
    encoding = before.encoding if before is not None else locale.getpreferredencoding(False)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "alike", line_buffering=descriptor == 2 or raw.isatty())


def failure() -> str | None:
    """Why the result could not be written. That its reader has gone is no reason: it has seen enough."""
    sys.stdout.flush()
    failed = getattr(getattr(sys.stdout.buffer, "raw", None), "failed", None)
    if failed is None or isinstance(failed, BrokenPipeError):
        return None
    return "it is closed" if failed.errno == errno.EBADF else str(failed.strerror)
