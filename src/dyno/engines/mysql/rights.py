"""What a login of MariaDB or MySQL may change."""

from __future__ import annotations

import re
from collections.abc import Callable

from dyno.engines.mysql.client import Result
from dyno.suites.sql.port import READER, Rights

READING = (
    *("USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "SHOW CREATE ROUTINE", "PROCESS", "REPLICATION CLIENT"),
    *("BINLOG MONITOR", "SLAVE MONITOR", "REPLICA MONITOR", "SHOW_ROUTINE"),
)
GRANT = re.compile(r"GRANT (?P<rights>.+?) ON (?P<place>\S+) TO .*?(?P<option>WITH GRANT OPTION)?$")
ROLE = re.compile(r"GRANT (?P<role>[^ ]+) TO ")
COLUMNS = re.compile(r"\([^)]*\)")


def read_rights(execute: Callable[[str], Result]) -> Rights:
    ((database,),) = execute("SELECT DATABASE()").fetchall()
    remedy = (
        f"CREATE USER {READER} IDENTIFIED BY 'choose one'",
        f"GRANT SELECT ON `{database}`.* TO {READER}",
        f"GRANT SHOW VIEW ON `{database}`.* TO {READER}",
    )
    return Rights(_right(execute, "CURRENT_USER", set()), remedy)


def _right(execute: Callable[[str], Result], login: str, seen: set[str]) -> str:
    """Returns a right of the login or of its roles to change something; '' if there is none."""
    seen.add(login)
    for (line,) in execute(f"SHOW GRANTS FOR {login}").fetchall():
        if grant := GRANT.match(line):
            rights = [right.strip() for right in COLUMNS.sub("", grant["rights"]).split(",")]
            if others := [right for right in rights if right not in READING]:
                return f"{others[0]} on {grant['place']}"
            if grant["option"]:
                return f"GRANT OPTION on {grant['place']}"
            continue
        role = ROLE.match(line)
        right = ""
        if role and role["role"] not in seen:
            right = _right(execute, role["role"], seen)
        if right:
            return right
    return ""
