"""Parts of pages: templates, their programs, the charting library, and the policy that allows these to run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host import installation
from dyno.host.directories import cache
from dyno.host.filesystem import replace
from dyno.report.charts import draw
from dyno.report.export.free_memory import trim
from dyno.report.tables import row_titles, units

NEEDS = "the report needs Jinja2 and vl-convert; install them by"
BESIDE = "'self' file:"
"""Policy for scripts in files next to the page, from the same server or the same directory."""
ENTRY = "window.vegaEmbed = vegaEmbed;"


def text(name: str) -> str:
    """Returns the content of a file of this folder."""
    return (files(__package__) / name).read_text(encoding="utf-8")


@lru_cache
def template(name: str, source: Callable[[str], str] = text) -> Any:
    """Returns a Jinja2 template. Raises UsageError if Jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise UsageError(f"{NEEDS}: {installation.extra('report')}") from None
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(source),
    )
    environment.globals.update(places=row_titles, units=units)
    return environment.get_template(name)


def library() -> str:
    """Returns the charting library. Raises UsageError if vl-convert is missing."""
    return script(draw.load(NEEDS))


def script(vl_convert: Any) -> str:
    """Returns Vega, Vega-Lite and Vega-Embed as one script, which defines only `window.vegaEmbed`. It is cached on
    disk with its checksum, because bundling takes longer than building most pages."""
    file = cache() / "charts" / f"vl-convert-{vl_convert.__version__}.js"
    with suppress(OSError, ValueError):
        checksum, _, content = file.read_bytes().partition(b"\n")
        if checksum == _checksum(content):
            return content.decode()
    bundle: str = vl_convert.javascript_bundle(ENTRY)
    trim()
    # Wrapped in a function, so that its thousands of names don't become global.
    bundle = f"(() => {{\n{bundle}\n}})();\n"
    content = bundle.encode()
    # Without space or permission, it is bundled again the next time.
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, _checksum(content) + b"\n" + content)
    return bundle


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def program(*scripts: str) -> str:
    """Joins scripts to one, in a scope of their own."""
    return "\n".join(["(() => {", '"use strict";', *scripts, "})();\n"])


def allowed(content: str) -> str:
    """Returns the source expression of the page's policy that allows this script or style: its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
