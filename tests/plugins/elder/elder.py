"""SQLite in a separate interpreter, whose version the tests set."""

from __future__ import annotations

import os
from dataclasses import replace

from dyno.engines.sqlite import ENGINE as SQLITE

ENGINE = replace(SQLITE, name="elder", python=os.environ.get("DYNO_TEST_PYTHON", ""), by_default=False)
