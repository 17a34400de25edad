"""SQLite in an interpreter of its own, of the version that the tests say."""

from __future__ import annotations

import os
from dataclasses import replace

from dyno.engines.sqlite import ENGINE as SQLITE

ENGINE = replace(SQLITE, name="elder", python=os.environ.get("DYNO_TEST_PYTHON", ""), by_default=False)
