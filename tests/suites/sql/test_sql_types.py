"""Runs queries on columns of every type, like a user, and checks that five engines agree. Also runs the example of
TPC-H's queries.
"""

from __future__ import annotations

import json
import shutil
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from needed import require
from shell import TESTS, Shell

from dyno import registry

pytestmark = pytest.mark.usefixtures("processes")

TPCH = TESTS.parent / "examples" / "tpch"
FIVE = ("sqlite", "duckdb", "postgresql", "mariadb", "clickhouse")
ROWS = 60
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, 3, -7, 2**31 - 1, None],
    "b": [2**63 - 1, -(2**63) + 1, 2**53 + 1, 0, None],
    "d": [0.5, -1.25, 0.1, 1e-9, 123456.789, 3.0, None],
    "m": [*map(Decimal, ("0.05", "19.99", "0.06", "0.02", "-3.10", "7.00", "1234567.89")), None],
    "t": ["it's", 'say "x"', "übergröße €😀", "a\\b", "100 %", "", " blank ", "2026-02-28T10:00:00", None],
    "raw": [b"\xff\x00\xfe", b"plain", b"\x00", "ü".encode(), None],
    "day": [date(2026, 2, 28), date(1999, 12, 31), date(2026, 7, 1), None],
    "ts": [datetime(2026, 3, 29, 2, 30, 5, 250_001), datetime(1999, 12, 31, 23, 59, 59), None,
           datetime(2026, 1, 1, 0, 0, 0, 120_000)],
    "flag": [True, False, None],
    "u": [UUID("00000000-0000-4000-8000-00000000000a"), UUID("fedcba98-7654-4321-8fed-cba987654321"), None],
}  # fmt: skip
SCHEMA = {
    "": """
CREATE TABLE thing (id integer PRIMARY KEY, i integer, b bigint, d double precision, m decimal(12, 2), t varchar(40),
  raw bytea, day date, ts timestamp, flag boolean, u uuid);
CREATE TABLE note (id integer PRIMARY KEY, thing_id integer, words varchar(40));
""",
    "mariadb": """
CREATE TABLE thing (id integer PRIMARY KEY, i integer, b bigint, d double precision, m decimal(12, 2),
  t varchar(40) COLLATE utf8mb4_nopad_bin, raw varbinary(40), day date, ts datetime(6), flag boolean, u uuid);
CREATE TABLE note (id integer PRIMARY KEY, thing_id integer, words varchar(40) COLLATE utf8mb4_nopad_bin);
""",
    # ClickHouse of 2018 has no times with microseconds.
    "clickhouse": """
CREATE TABLE thing (id Int32, i Nullable(Int32), b Nullable(Int64), d Nullable(Float64), m Nullable(Decimal(12, 2)),
  t Nullable(String), raw Nullable(String), day Nullable(Date), ts Nullable(String), flag Nullable(UInt8),
  u Nullable(UUID)) ENGINE = MergeTree ORDER BY id;
CREATE TABLE note (id Int32, thing_id Int32, words String) ENGINE = MergeTree ORDER BY id;
""",
}
PRESENT = "WHERE i IS NOT NULL AND m IS NOT NULL"
CASES = (
    "SELECT id, CASE WHEN d > 1 THEN 'much' WHEN d > 0 THEN 'some' ELSE 'none' END AS size,"
    " COALESCE(t, 'nothing') AS words, COALESCE(i, -1) AS number,"
)
NULLS = (
    "SELECT count(*) AS n, count(t) AS texts, count(ts) AS times, max(CASE WHEN id < 0 THEN d END) AS missing,"
    " avg(CASE WHEN m > 0 AND m < 1 THEN {} END) AS small,"
    " sum(CASE WHEN raw IS NULL AND flag IS NOT NULL THEN 1 ELSE 0 END) AS some FROM thing"
)
GROUPED = (
    "SELECT i, count(*) AS n, sum(i) AS si, sum(m) AS sm, avg({}) AS am, avg(id) AS ai, avg(d) AS ad, min(d) AS low,"
    " min(b) AS least, max(m) AS most, max(day) AS latest, min(ts) AS first, count(DISTINCT t) AS texts FROM thing"
    " GROUP BY i HAVING count(*) > 1"
)
OUTER = (
    "SELECT thing.id, note.id AS other, words FROM thing LEFT JOIN note ON thing.id = note.thing_id"
    " WHERE thing.i = :i"
)
CASTS = "CAST(i AS decimal(14, 3)) AS more, CAST(m AS decimal(14, 4)) + id AS plus"
QUERIES: dict[str, str | dict[str, str]] = {
    "every": "SELECT id, i, b, d, m, t, raw, day, ts, flag, u FROM thing WHERE id >= :id",
    "whole": "SELECT id, i, b FROM thing WHERE i = :i OR b > :b OR b = :b",
    "doubles": "SELECT id, d, d * 2 AS twice FROM thing WHERE d <= :d",
    "decimals": "SELECT id, m, m * 3 + m AS four, m * m AS square FROM thing WHERE m = :m OR m < 0",
    "texts": "SELECT id, t FROM thing WHERE t = :t OR t <> 'it''s'",
    "bytes": "SELECT id, raw FROM thing WHERE raw = :raw",
    "days": "SELECT id, day FROM thing WHERE day BETWEEN '1999-12-31' AND :day",
    "times": "SELECT id, ts FROM thing WHERE ts >= :ts",
    "flags": "SELECT flag, count(*) AS n FROM thing WHERE flag = :flag OR flag IS NULL GROUP BY flag",
    "uuids": "SELECT id, u FROM thing WHERE u = :u",
    "lists": "SELECT id, t, day FROM thing WHERE i IN (1, 2, :i) AND day IS NOT NULL"
    " AND day NOT IN ('2026-02-28', '2020-01-01') AND (t LIKE '%''%' OR t LIKE 'ü%' OR t LIKE '_00 %')",
    "cases": {
        "": f"{CASES} COALESCE(day, '2000-01-01') AS date FROM thing",
        "clickhouse": f"{CASES} COALESCE(day, toDate('2000-01-01')) AS date FROM thing",
    },
    "nulls": {"": NULLS.format("m"), "clickhouse": NULLS.format("toFloat64(m)")},
    "grouped": {"": GROUPED.format("m"), "clickhouse": GROUPED.format("toFloat64(m)")},
    "latest": "SELECT id, ts, m FROM thing WHERE ts IS NOT NULL ORDER BY ts DESC, id LIMIT 7",
    "outer": {"": OUTER, "clickhouse": f"{OUTER} SETTINGS join_use_nulls = 1"},
    "exists": {
        "": "WITH busy AS (SELECT thing_id, count(*) AS n FROM note GROUP BY thing_id)"
        " SELECT thing.id, n FROM thing JOIN busy ON thing.id = thing_id"
        " WHERE EXISTS (SELECT 1 FROM note WHERE note.thing_id = thing.id AND words = 'it''s')",
        "clickhouse": "SELECT id, n FROM thing"
        " ALL INNER JOIN (SELECT thing_id AS id, count(*) AS n FROM note GROUP BY thing_id) USING id"
        " WHERE id IN (SELECT thing_id FROM note WHERE words = 'it''s')",
    },
    "window": {
        "": "SELECT id, row_number() OVER (PARTITION BY i ORDER BY id) AS place,"
        f" sum(m) OVER (PARTITION BY i) AS total FROM thing {PRESENT}",
        "clickhouse": "SELECT id, place, total FROM"
        f" (SELECT arraySort(groupArray(id)) AS ids, sum(m) AS total FROM thing {PRESENT} GROUP BY i)"
        " ARRAY JOIN ids AS id, arrayEnumerate(ids) AS place",
    },
    "union": {
        "": "SELECT id, t FROM thing WHERE i = 1 UNION SELECT id, t FROM thing WHERE i < 2"
        " UNION ALL SELECT id, words FROM note WHERE id < 3",
        "clickhouse": "SELECT DISTINCT id, t FROM"
        " (SELECT id, t FROM thing WHERE i = 1 UNION ALL SELECT id, t FROM thing WHERE i < 2)"
        " UNION ALL SELECT id, toNullable(words) FROM note WHERE id < 3",
    },
    "casts": {
        "": f"SELECT id, t || '/' || CAST(id AS varchar(9)) AS joined, {CASTS} FROM thing {PRESENT}",
        "mariadb": f"SELECT id, CONCAT(t, '/', CAST(id AS char(9))) AS joined, {CASTS} FROM thing {PRESENT}",
        "clickhouse": "SELECT id, t || '/' || toString(id) AS joined, toDecimal64(assumeNotNull(i), 3) AS more,"
        f" toDecimal64(assumeNotNull(m), 4) + id AS plus FROM thing {PRESENT}",
    },
}


def table(path: Path) -> None:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    ids = list(range(1, ROWS + 1))
    columns = {name: [values[at % len(values)] for at in ids] for name, values in VALUES.items()}
    columns["u"] = [value and value.bytes for value in columns["u"]]
    types = {"m": pa.decimal128(12, 2), "ts": pa.timestamp("us"), "u": pa.binary(16)}
    arrays = {name: pa.array(values, types.get(name)) for name, values in columns.items()}
    arrays["u"] = pa.ExtensionArray.from_storage(pa.uuid(), arrays["u"])
    write_table(pa.table({"id": pa.array(ids, pa.int32()), **arrays}), path / "thing.parquet")
    words = [text for text in VALUES["t"] if text]
    notes = {"id": ids, "thing_id": [at // 2 for at in ids], "words": [words[at % len(words)] for at in ids]}
    write_table(pa.table(notes), path / "note.parquet")


def plan() -> str:
    lines = ['suite = "sql"', "samples = 1", "[param]", "operations = 20"]
    lines += [f'{name} = "thing.{name}"' for name in ("id", *VALUES)]
    lines += ["[sql]", f"schema = {inline(SCHEMA)}", "[sql.tables]"]
    lines += ['thing = "thing.parquet"', 'note = "note.parquet"']
    for name, script in QUERIES.items():
        lines += [f"[sql.transactions.{name}]", f"script = {inline(script)}"]
    return "\n".join(lines)


def inline(texts: str | dict[str, str]) -> str:
    """Returns the text, or the texts by engine, in TOML."""
    if isinstance(texts, str):
        return json.dumps(texts)
    return "{ " + ", ".join(f"{json.dumps(name)} = {json.dumps(text)}" for name, text in texts.items()) + " }"


def test_five_engines_agree_on_queries_of_every_type(shell: Shell) -> None:
    for engine in FIVE:
        require(registry.engine(engine).reduce_to_port("sql"))
    assert len(QUERIES) == 20
    table(shell.home)
    (shell.home / "types.toml").write_text(plan())
    ended = shell.dyno("run", "types.toml", "-e", ",".join(FIVE), "-o", shell.file)
    cells = shell.cells()
    assert {key: cell["why"] for key, cell in cells.items() if not cell["valid"]} == {}
    assert ended.status == 0 and {phase for _, phase in cells} == set(QUERIES)


def test_tpch_example_engines_agree_on_nonempty_answers(shell: Shell) -> None:
    require(registry.engine("duckdb").reduce_to_port("sql"))
    home = shutil.copytree(TPCH, shell.home / "tpch", ignore=shutil.ignore_patterns("data"))
    made = shell.sh(sys.executable, home / "make_data.py", "--scale", 0.01, "--generate")
    assert made.status == 0 and "lineitem.parquet" in made.out, made.err
    ended = shell.dyno(
        "run", home / "tpch.toml", "-e", "duckdb,sqlite", "-p", "operations=1", "--samples", 1, "-o", shell.file
    )
    assert ended.status == 0, ended.out + ended.err
    phases = set()
    for attempt in shell.attempts():
        for sample in attempt["samples"]:
            if (answers := sample["facts"].get("answers_shown")) is not None:
                ((_, answer),) = json.loads(answers)
                assert answer.startswith("[[[") and "None" not in answer, sample["phase"]
                assert sample["facts"]["answers_group"] == 0
                phases.add(sample["phase"])
    assert phases == {"q1", "q3", "q6", "q14", "q19"}
