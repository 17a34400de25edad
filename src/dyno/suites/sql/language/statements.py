"""The text of SQL statements: where one ends, its parameters, and whether it may change data.

The rules are those of PostgreSQL's psql and pgbench. MySQL's quotes `...` are known too. A backslash in '...' is a
character like others, as in standard SQL.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from dyno.contracts.settings import format_value

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n\r]*)|(?P<comment>/\*)|(?P<escaped>[eE]')|(?P<quote>['\"`])|(?P<dollar>\$(?:[^\W\d]\w*)?\$)"
    r"|(?P<colons>::|:=)|(?P<variable>:[^\W\d]\w*)|(?P<word>[^\W\d][\w$]*)|(?P<number>\d[\w.]*)|(?P<end>;)"
    r"|(?P<open>\()|(?P<close>\))|(?P<command>\\)|(?P<other>.)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"(?:[^'\\]|\\.|'')*'", re.DOTALL)
_COMMENT = re.compile(r"/\*|\*/")
_QUOTES = {'"': "quoted name", "`": "quoted name"}

_QUERIES = {"SELECT", "VALUES", "TABLE", "FROM"}
_TRANSACTION = {
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "LOCK",
    "UNLOCK",
    "SET",
}
_EXPLAIN, _CURSOR = {"EXPLAIN", "DESCRIBE", "DESC"}, {"DECLARE", "FETCH", "CLOSE"}
_READS = {*_QUERIES, *_TRANSACTION, *_EXPLAIN, *_CURSOR, "WITH", "SHOW"}
_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE", "INTO"}
_EXPLAINED = {*_CHANGES, "REPLACE", "CREATE", "REFRESH", "EXECUTE", "CALL", "COPY", "EXPORT", "IMPORT"}
_SESSION = {"WRITE", "GLOBAL", "PERSIST", "PASSWORD", "DEFAULT_TRANSACTION_READ_ONLY", "TRANSACTION_READ_ONLY"}


@dataclass
class Lexed:
    """A statement, as it was read."""

    at: int = -1
    """Where its first token is."""
    pieces: list[str] = field(default_factory=lambda: [""])
    names: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """Words in capitals, except quoted ones and functions."""
    columns: set[str] = field(default_factory=set)
    """Words in capitals, and quoted texts: each name of a column of the result is among them..."""
    star: bool = False
    """...unless the statement has a star."""
    _last: str = ""

    def add(self, kind: str, text: str, at: int) -> None:
        """Adds a token that is neither space nor comment."""
        if self.at < 0:
            self.at = at
        if kind == "word":
            self.words.append(text.upper())
            self.columns.add(text.upper())
        elif kind == "open" and self.words[-1:] == [self._last.upper()] and len(self.words) > 1:
            # A function such as MySQL's insert().
            if self.words[-1] in _EXPLAINED:
                self.words.pop()
        elif kind == "quote":
            self.columns.add(text[1:-1].upper())
        self.star |= text == "*" and self._last != "("
        self._last = text

    def writes(self) -> bool:
        first = self.words[0]
        if first not in _READS:
            return True
        words = [word for at, word in enumerate(self.words) if not self._locks(at)]
        if first in _QUERIES:
            return "INTO" in words
        if first in _EXPLAIN:
            return not {"ANALYZE", "ANALYSE"}.isdisjoint(words) and not _EXPLAINED.isdisjoint(words)
        return not (_SESSION if first in _TRANSACTION else _CHANGES).isdisjoint(words)

    def _locks(self, at: int) -> bool:
        """Returns whether the word is UPDATE in FOR UPDATE or FOR NO KEY UPDATE."""
        return self.words[at] == "UPDATE" and self.words[max(at - 1, 0)] in ("FOR", "KEY")

    def may_return(self, name: str) -> bool:
        """Returns whether the result may have a column of this name."""
        return self.star or name.upper() in self.columns or self.words[0] not in ("SELECT", "WITH", *_CHANGES)


class Unreadable(Exception):
    """An error in a statement, with its position in the text."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def read_statement(text: str, at: int, resolve: Callable[[str], str]) -> tuple[Lexed, int]:
    """Reads up to a semicolon, a backslash or the end of the text. Returns the statement, which has no words if there
    is none, and the position to go on at. `resolve` returns the name to bind for a variable, or raises ValueError.
    Raises Unreadable."""
    lexed, parentheses = Lexed(), list[int]()
    while at < len(text):
        start = at
        token = _TOKEN.match(text, start)
        assert token, "the last alternative matches any character"
        kind = str(token.lastgroup)
        if kind == "command" or (kind == "end" and not parentheses):
            at += kind == "end"
            break
        at = _end(text, kind, token)
        part = text[start:at]
        if kind == "variable":
            try:
                lexed.names.append(resolve(part[1:]))
            except ValueError as error:
                raise Unreadable(f"{error}; a colon that is no parameter needs a space after it", start) from None
            lexed.pieces.append("")
        elif not part.startswith("--"):
            lexed.pieces[-1] += part
        if kind not in ("space", "comment"):
            if not lexed.words and kind not in ("word", "open"):
                raise Unreadable(f"expected an SQL statement, got {format_value(part)}", start)
            lexed.add(kind, part, start)
        if kind == "open":
            parentheses.append(start)
        elif kind == "close":
            parentheses = parentheses[:-1]
    if parentheses:
        raise Unreadable("the parenthesis isn't closed", parentheses[-1])
    lexed.pieces[0] = lexed.pieces[0].lstrip()
    lexed.pieces[-1] = lexed.pieces[-1].rstrip()
    return lexed, at


def _end(text: str, kind: str, token: re.Match[str]) -> int:
    """Returns the end of a token. Quotes and comments extend to their ends."""
    start, end = token.span()
    if kind == "comment":
        depth = 1
        for edge in _COMMENT.finditer(text, end):
            depth += 1 if edge.group() == "/*" else -1
            if not depth:
                return edge.end()
        raise Unreadable("the comment /* isn't closed", start)
    if kind == "escaped":
        if string := _ESCAPED.match(text, end):
            return string.end()
        raise Unreadable("the string isn't closed", start)
    if kind in ("quote", "dollar"):
        # A doubled quote within quotes is read as two strings without a gap, which ends at the same place.
        closed = text.find(token.group(), end)
        if closed < 0:
            raise Unreadable(f"the {_QUOTES.get(token.group(), 'string')} isn't closed", start)
        return closed + len(token.group())
    return end
