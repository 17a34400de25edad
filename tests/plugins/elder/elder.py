"""SQLite in a separate interpreter, whose version the tests set."""

from __future__ import annotations

import os
from dataclasses import replace

from dyno.contracts.engine import Listing
from dyno.engines.sqlite import ENGINE as SQLITE

ENGINE = replace(
    SQLITE,
    name="elder",
    installation=replace(SQLITE.installation, python=os.environ.get("DYNO_TEST_PYTHON", "")),
    listing=Listing(by_default=False),
)
