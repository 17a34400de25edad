"""The archive in SQL: the statements that engines share, with their own names of types. No engine may be named
here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

TABLE, DIRECTORY = "samples", "variables"
FIELDS = "ts, val, stat, sevr"
ROWS = 65_536
"""That are fetched at once, of all."""


class Types(NamedTuple):
    """What an engine calls them."""

    name: str
    id: str
    ts: str
    val: str
    small: str


def create_names(types: Types, suffix: str = "") -> str:
    """Numbers from 0 up stand for the names of variables."""
    return (
        f"CREATE TABLE IF NOT EXISTS {DIRECTORY} (id {types.id} NOT NULL, name {types.name} NOT NULL){_space(suffix)}"
    )


def create(types: Types, suffix: str = "", key: str = "PRIMARY KEY (pv, ts)") -> str:
    """The samples, clustered on variable and time, or with an index of these, where there is to be a key."""
    columns = (
        f"pv {types.id} NOT NULL, ts {types.ts} NOT NULL, val {types.val} NOT NULL, "
        f"stat {types.small} NOT NULL, sevr {types.small} NOT NULL"
    )
    return f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}{', ' if key else ''}{key}){_space(suffix)}"


def _space(suffix: str) -> str:
    return f" {suffix}" if suffix else ""


NAMES = f"SELECT id, name FROM {DIRECTORY}"


def add_name(mark: str) -> str:
    return f"INSERT INTO {DIRECTORY} VALUES ({mark}, {mark})"


def missing(names: Sequence[str], known: Mapping[int, str]) -> list[tuple[int, str]]:
    """Names that are to be added, with the next numbers."""
    there = set(known.values())
    return list(enumerate((name for name in names if name not in there), len(known)))


def seen(mark: str) -> str:
    return f"SELECT 1 FROM {TABLE} WHERE pv = {mark} AND ts = {mark}"


def one(mark: str) -> str:
    return f"SELECT {FIELDS} FROM {TABLE} WHERE pv = {mark} ORDER BY ts"


def window(mark: str) -> str:
    return f"SELECT {FIELDS} FROM {TABLE} WHERE pv = {mark} AND ts >= {mark} AND ts < {mark} ORDER BY ts"


ALL = f"SELECT pv, {FIELDS} FROM {TABLE}"
LATEST_BY_GROUPS = (
    f"SELECT pv, MAX(ts), ARG_MAX(val, ts), ARG_MAX(stat, ts), ARG_MAX(sevr, ts) FROM {TABLE} GROUP BY pv"
)
"""For what reads all of a column rather than seeks."""
LATEST_BY_SEEKS = (
    f"SELECT s.pv, s.ts, s.val, s.stat, s.sevr FROM {DIRECTORY} v JOIN {TABLE} s "
    f"ON s.pv = v.id AND s.ts = (SELECT MAX(ts) FROM {TABLE} WHERE pv = v.id)"
)
"""For what has an index of variable and time: a seek for each variable."""
LATEST_BY_SKIPS = (
    f"SELECT s.pv, s.ts, s.val, s.stat, s.sevr FROM (SELECT pv, MAX(ts) AS ts FROM {TABLE} GROUP BY pv) v "
    f"JOIN {TABLE} s ON s.pv = v.pv AND s.ts = v.ts"
)
"""For what skips from variable to variable in such an index, where it is asked for groups."""


def downsample(mark: str, bucket: int, begins: str) -> str:
    """`begins`: where the stretch of a time begins, in the engine's words, with {bucket} for its length."""
    begin = begins.format(bucket=bucket)
    return (
        f"SELECT {begin}, AVG(val), MIN(val), MAX(val) FROM {TABLE} "
        f"WHERE pv = {mark} AND ts >= {mark} AND ts < {mark} GROUP BY {begin} ORDER BY 1"
    )
