"""Splits a SQL script into statements, for client libraries that execute one at a time, and quotes names."""

import re
from collections.abc import Iterator

# A quote that is never closed ends with the script.
_STANDARD = r"""
    (?P<opened>/\*)                                        # a comment, in which others may be nested
  | (?P<comment>--[^\n]*)
  | (?P<quoted>(?<!\w)[eE]'(?:[^'\\]|\\.)*(?:'|\Z) | '[^']*(?:'|\Z) | "[^"]*(?:"|\Z) | `[^`]*(?:`|\Z)
      | (?<![\w$])\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z))
  | (?P<end>;)
"""
_ESCAPING = r"""
    (?P<comment>--(?=\s|\Z)[^\n]* | \#[^\n]* | /\*(?!!).*?(?:\*/|\Z))  # /*! has statements for MySQL
  | (?P<quoted>'(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `[^`]*(?:`|\Z))
  | (?P<end>;)
"""
_DIALECTS = {False: re.compile(_STANDARD, re.X | re.S), True: re.compile(_ESCAPING, re.X | re.S)}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_COMMENT_MARK = re.compile(r"/\*|\*/")


def statements(script: str, escaping: bool = False) -> Iterator[str]:
    """Yields the statements, which semicolons separate, without these. Skips statements that are only comments.

    Semicolons in comments and in quotes, also those of dollars, separate nothing. `escaping`: the dialect of MySQL
    and ClickHouse, with backslashes in quotes, comments from # on, and neither dollar quotes nor nested comments.
    """
    start = position = 0
    code = ""
    while (match := _DIALECTS[escaping].search(script, position)) is not None:
        code += script[position : match.start()]
        position = match.end()
        if match.lastgroup == "opened":
            position = _comment_end(script, position)
        elif match["quoted"]:
            code += "'"
        elif match["end"]:
            if code.strip():
                yield script[start : match.start()].strip()
            start, code = position, ""
    if (code + script[position:]).strip():
        yield script[start:].strip()


def quote_name(name: str, mark: str = '"') -> str:
    """Returns the name of a table or column in quotes, since it may be a keyword: `at` is one of DuckDB only. Names
    with a capital letter or a dot are returned as they are, because PostgreSQL's names in quotes depend on case."""
    if _PLAIN_NAME.fullmatch(name):
        return f"{mark}{name}{mark}"
    return name


def _comment_end(script: str, position: int) -> int:
    """Returns the end of the comment whose beginning ends at `position`."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(script, position):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(script)
