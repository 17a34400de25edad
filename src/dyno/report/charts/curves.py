"""What charts with a line for each engine share: how engines are told apart, by colour and by shape or dash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyno.report.charts import theme

MOST_COLUMNS = 6
LETTER, SYMBOL = 7, 40
"""Pixels of a letter, and of a symbol with what stands around it: rather too many than too few."""


def columns(engines: Sequence[str], width: int) -> int:
    """Of a legend of that many pixels: as many as the longest name leaves room for."""
    longest = max((len(engine) for engine in engines), default=0) * LETTER + SYMBOL
    return max(1, min(MOST_COLUMNS, width // longest))


def colour(engines: Sequence[str], symbol: int = 80) -> dict[str, Any]:
    return _by_engine(engines, theme.colours(engines), symbol)


def shape(engines: Sequence[str], symbol: int = 80) -> dict[str, Any]:
    return _by_engine(engines, theme.shapes(engines), symbol)


def dash(engines: Sequence[str], symbol: int = 80) -> dict[str, Any]:
    return _by_engine(engines, theme.dashes(engines), symbol)


def _by_engine(engines: Sequence[str], scale: dict[str, Any], symbol: int) -> dict[str, Any]:
    """With a legend above the chart, `symbol` square pixels large for each. Those of one chart become one."""
    legend = {"title": None, "orient": "top", "columns": columns(engines, 560), "symbolLimit": 0}
    legend |= {"symbolOpacity": 1, "symbolSize": symbol}
    return {"field": "engine", "type": "nominal", "scale": scale, "legend": legend}
