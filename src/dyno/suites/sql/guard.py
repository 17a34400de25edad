"""Which statements a session on the user's own tables sends when nothing may be changed.

The database enforces that nothing changes: by a read-only transaction that is rolled back, or by a setting. The text
is checked for what a database lets pass nevertheless. Strings and comments are searched as well, because dialects and
settings disagree on where those end: what is in doubt is refused.
"""

from __future__ import annotations

import re

from dyno.suites.sql.language.statements import Unreadable, read_statement

KINDS = ("SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "FROM")
"""First words of the statements that read."""
REMEDY = "name your database that it may change, as --change DATABASE"

_COMMENT = r"/\*(?:(?!/\*|\*/).)*\*/"
_GAP = rf"(?:\s|{_COMMENT}|--[^\n]*\n|\#[^\n]*\n)"
_FIRST = re.compile(rf"(?:\s|\(|{_COMMENT})*([^\W\d]\w*)", re.S)
"""Matches up to the first word. No dialect ends one of its comments elsewhere: nothing is nested in them."""
_CONTROL = re.compile(
    r"(BEGIN|START)(\s+(TRANSACTION|WORK))?(\s+READ\s+ONLY)?|(COMMIT|END|ROLLBACK)(\s+(TRANSACTION|WORK))?", re.I
)
_FUNCTIONS = (
    # PostgreSQL. The server is asked, too: see `Protection.effects`.
    *("set_config", r"lo_\w+", "loread", "lowrite", r"dblink\w*", "nextval", "setval", r"query_to_xml\w*"),
    *("cursor_to_xml", "ts_stat", r"pg_(?:try_)?advisory\w*", r"pg_(?:terminate|cancel)_backend", "pg_notify"),
    *("pg_reload_conf", r"pg_rotate_logfile\w*", r"pg_stat\w*_reset\w*", "pg_promote", r"pg_switch_\w+"),
    r"pg_(?:create|drop|copy|replication|logical|wal_replay|backup|start|stop|export|import|file|ls|log)_\w+",
    r"pg_read_(?:binary_)?file",
    # MariaDB and MySQL.
    *("load_file", "get_lock", r"release_(?:all_)?locks?", "sys_exec", "sys_eval"),
    # SQLite and DuckDB.
    *("load_extension", "writefile", "edit", "fts3_tokenizer", r"(?:force_)?checkpoint", "write_log"),
    r"(?:postgres|mysql|sqlite)_(?:execute|query|attach)",
    # ClickHouse: programs, and statements for other servers.
    *("executable", "odbc", "jdbc"),
)
"""Functions that change something, lock something, or reach files and other servers."""
_EFFECTS = {
    re.compile(pattern, re.I | re.S): name
    for pattern, name in (
        (r"/\*M?!", "a comment that MariaDB and MySQL execute, /*! ... */"),
        (r"\b(?:OUTFILE|DUMPFILE)\b", "INTO OUTFILE"),
        (rf"\bINTO{_GAP}*[@:]", "INTO @variable"),
        (r"@.*:=", "an assignment by :="),
        (r"\bU&\"", 'a name in U&"..."'),
        (rf"\bFOR{_GAP}+(?:NO{_GAP}+KEY{_GAP}+)?UPDATE\b", "FOR UPDATE, which locks rows"),
        (rf"\bFOR{_GAP}+(?:KEY{_GAP}+)?SHARE\b", "FOR SHARE, which locks rows"),
        (rf"\bLOCK{_GAP}+IN{_GAP}+SHARE\b", "LOCK IN SHARE MODE, which locks rows"),
        (rf"\b(?:NEXT|PREVIOUS){_GAP}+VALUE{_GAP}+FOR\b", "NEXT VALUE FOR"),
    )
}
_CALL = re.compile(rf"\b({'|'.join(_FUNCTIONS)})[\"`\]]?{_GAP}*\(", re.I | re.S)
_PASTED = re.compile(r"\\['\"`]|#|--|\$\w*\$")
"""What makes dialects disagree on where a string ends, around which values are pasted."""


def is_control(text: str) -> bool:
    """Returns whether the statement begins or ends a transaction, and does nothing else."""
    return _CONTROL.fullmatch(text.strip()) is not None


def find_effect(text: str, pasted: bool = False) -> str:
    """Returns why the statement is not sent in a session in which nothing may change; '' if it is sent. `pasted`:
    the client library writes values into the text."""
    if is_control(text):
        return ""
    try:
        lexed, end = read_statement(text, 0, lambda name: name)
    except Unreadable as error:
        return str(error)
    if text[end:].strip():
        return "there is more than one statement"
    first = _FIRST.match(text)
    word = ""
    if first:
        word = first.group(1).upper()
    if word not in KINDS:
        return f"{word or 'it'} is none of the statements that only read ({', '.join(KINDS)})"
    if lexed.writes():
        return "it writes"
    for pattern, name in _EFFECTS.items():
        if pattern.search(text):
            return f"it has {name}"
    if call := _CALL.search(text):
        return f"it calls {call.group(1)}"
    if pasted and (mark := _PASTED.search(text)):
        return f"it has parameters and {mark.group()}, at which dialects disagree where a string ends"
    return ""
