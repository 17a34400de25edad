"""The charting library as a page has it, and where it is kept: to put it together takes longer than most pages.

What a page draws with it may not be put here.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from dyno.host.directories import cache
from dyno.host.filesystem import replace
from dyno.report.export.free_memory import trim

ENTRY = "window.vegaEmbed = vegaEmbed;"


def script(vl_convert: Any) -> str:
    """Vega, Vega-Lite and Vega-Embed, which leave one name behind: thousands without a function around them."""
    file = cache() / "charts" / f"vl-convert-{vl_convert.__version__}.js"
    if (kept := _kept(file)) is not None:
        return kept
    bundle: str = vl_convert.javascript_bundle(ENTRY)
    trim()
    made = f"(() => {{\n{bundle}\n}})();\n"
    _keep(file, made)
    return made


def _kept(file: Path) -> str | None:
    """None where it is not there, or not what was put there."""
    with suppress(OSError, ValueError):
        said, _, content = file.read_bytes().partition(b"\n")
        if said == _sum(content):
            return content.decode()
    return None


def _keep(file: Path, made: str) -> None:
    """Where there is no room, or no right, it is put together the next time, too."""
    content = made.encode()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, _sum(content) + b"\n" + content)


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
