"""RelStorage's adapter for MySQL, with what MariaDB is to be told otherwise. RelStorage 4 knows MySQL alone.

Two things. It takes 10.11 for a version of MySQL from 8.0.19 on, and sends what only that understands (`VALUES (...)
AS excluded`). And its tables with a history say `REFERENCES transaction` beside a column without naming the other's,
which MySQL reads and passes over, and MariaDB refuses (errno 150). So it is told MySQL 5.7.19, which is what MariaDB
can take the place of, and those words are left out: the tables are then the same as on MySQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LIKE = "5.7.19"
_PASSED_OVER = re.compile(r"\bREFERENCES\s+([\"`]?)transaction\1(?!\s*\()")


def adapter(options: Any, address: Mapping[str, Any]) -> Any:
    """The adapter for the database at that address."""
    from relstorage.adapters.mysql import MySQLAdapter
    from relstorage.adapters.mysql.schema import MySQLSchemaInstaller, MySQLVersionDetector

    class Detector(MySQLVersionDetector):  # type: ignore[misc]
        def _fetch_version_from_server(self, cursor: Any) -> str:
            told = str(super()._fetch_version_from_server(cursor))
            return LIKE if "MariaDB" in told else told

    for name in dir(MySQLSchemaInstaller):
        statements = getattr(MySQLSchemaInstaller, name, None) if name.startswith("CREATE_") else None
        if isinstance(statements, str):
            setattr(MySQLSchemaInstaller, name, _PASSED_OVER.sub("", statements))
        elif isinstance(statements, tuple):
            setattr(MySQLSchemaInstaller, name, tuple(_PASSED_OVER.sub("", each) for each in statements))
    return MySQLAdapter(options=options, version_detector=Detector(), **address)
