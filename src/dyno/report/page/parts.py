"""What pages are put together from: templates, the program, the charting library, and the policy of what may run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host import installation
from dyno.report.charts import draw
from dyno.report.page.bundle import script
from dyno.report.tables import row_titles, units

# For scripts that are files beside the page: from the same server, or from where the page is itself.
NEEDS = "the report needs Jinja2 and vl-convert; install them by"
BESIDE = "'self' file:"


def lacking() -> str:
    """What is said where the report's libraries are missing."""
    return f"{NEEDS}: {installation.extra('report')}"


def text(name: str) -> str:
    """A file of this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")


@lru_cache
def template(name: str, source: Callable[[str], str] = text) -> Any:
    """Raises UsageError where Jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise UsageError(lacking()) from None
    made = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(source),
    )
    made.globals.update(places=row_titles, units=units)
    return made.get_template(name)


def library() -> str:
    """The charting library. Raises UsageError where vl-convert is missing."""
    return script(draw.load(NEEDS))


def program(*texts: str) -> str:
    """Several as one, whose names are its own."""
    return "\n".join(["(() => {", '"use strict";', *texts, "})();\n"])


def allowed(content: str) -> str:
    """What a page's policy knows a script or a style by: no other counts."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
