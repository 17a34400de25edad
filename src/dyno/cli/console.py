"""Standard output and standard error: open, able to print any character, never raising; and rich's consoles on them.

A failure to write is remembered, and reported once at the end. A character that a stream's encoding lacks is replaced
by a similar one.
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
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from rich.console import Console

PIPE_WIDTH = 1_000_000
"""A pipe or a file has no width: a row stays one line, which grep and awk can read."""
DEFAULT_WIDTH, MIN_WIDTH = 80, 40
"""Columns of a terminal that does not report its width; and the narrowest that tables are made for, which a narrower
terminal folds itself."""
UTF8_LOCALES = ("C.UTF-8", "en_US.UTF-8")
SIMILAR = {
    **dict.fromkeys("–—−‐‑‒―─━", "-"),
    **dict.fromkeys("│┃▏▎", "|"),
    **dict.fromkeys("▍▌▋▊▉█", "#"),
    **dict(zip("▁▂▃▄▅▆▇", "_.-~=+*", strict=True)),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰†", "+"),
    # Braille: the frames of rich's spinner.
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
"""The characters beyond ASCII that reports print, and a similar one in ASCII."""


def output() -> Console:
    """Console for results on standard output: as wide as the terminal, or unlimited in a pipe or file."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # rich would exit.
            raise BrokenPipeError

    # Engines' texts may hold brackets and colons, which are neither markup nor emoji.
    console = Output(highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        console.width = max(console.width or DEFAULT_WIDTH, MIN_WIDTH)
    else:
        console.width = PIPE_WIDTH
    return console


def progress() -> Console:
    """Console for progress on standard error."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.width = max(console.width or DEFAULT_WIDTH, MIN_WIDTH)
    return console


def print_note(line: str) -> None:
    """Prints a line that is not part of the result on standard error."""
    print(f"dyno: {line}", file=sys.stderr)


def prepare() -> None:
    """Replaces Python's standard streams. To be called before any file is opened."""
    codecs.register_error("similar", _replace_unencodable)
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # It is closed: the next opened file would get its number, and be written to. Opened for the wrong
            # direction, so that using it fails.
            os.open(os.devnull, os.O_RDONLY if descriptor else os.O_WRONLY)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    # Makes UTF-8 the default encoding of files and pipes: under LC_ALL=POSIX it is ASCII, but Dyno's own files and
    # the output of programs are not. The streams keep the terminal's encoding.
    if codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8":
        for name in UTF8_LOCALES:
            with suppress(locale.Error):
                locale.setlocale(locale.LC_CTYPE, name)
                return


def write_error() -> str | None:
    """Why the result could not be written, if so. A reader that has closed the pipe is no error."""
    sys.stdout.flush()
    error = getattr(getattr(sys.stdout.buffer, "raw", None), "error", None)
    if error is None or isinstance(error, BrokenPipeError):
        return None
    if error.errno == errno.EBADF:
        return "it is closed"
    return str(error.strerror)


class _Descriptor(io.FileIO):
    """A stream's descriptor. After a failed write, further bytes are discarded."""

    error: OSError | None = None

    def write(self, data: ReadableBuffer) -> int:
        size = memoryview(data).nbytes
        if self.error is not None:
            return size
        try:
            while (written := super().write(data)) is None:
                # Another process made the descriptor non-blocking.
                select.select([], [self], [])
        except OSError as error:
            self.error = error
            return size
        return written


def _stream(descriptor: int, before: TextIO | None) -> TextIO:
    raw = _Descriptor(descriptor, "wb", closefd=False)
    if before is not None:
        encoding = before.encoding
    else:
        encoding = locale.getpreferredencoding(False)
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding, "similar", line_buffering=descriptor == 2 or raw.isatty())


def _replace_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Replaces one character. A wider replacement uses up blanks that follow, so that columns of tables stay
    aligned."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, end = error.object, error.start + 1
    replacement = similar(text[error.start])
    excess = len(replacement) - _columns(text[error.start])
    while excess > 0 and text[end : end + 2] == "  ":
        excess, end = excess - 1, end + 1
    return replacement, end


def similar(character: str) -> str:
    """ASCII for a character: from the table, or without its accents, or a question mark for each of its columns."""
    if character in SIMILAR:
        return SIMILAR[character]
    if "\udc80" <= character <= "\udcff":
        # An undecodable byte of a file name.
        return f"\\x{ord(character) - 0xDC00:02x}"
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return base or "?" * _columns(character)


def _columns(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    return 1
