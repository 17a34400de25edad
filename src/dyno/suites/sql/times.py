"""Times that a client library returns with their time zone."""

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any


def without_zone(rows: list[tuple[Any, ...]], columns: Sequence[int]) -> list[tuple[Any, ...]]:
    """Returns the rows with the times in these columns in UTC, without time zone."""
    for column in columns:
        rows = [(*row[:column], _utc(row[column]), *row[column + 1 :]) for row in rows]
    return rows


def _utc(time: datetime | None) -> datetime | None:
    if time is None:
        return None
    return time.astimezone(timezone.utc).replace(tzinfo=None)
