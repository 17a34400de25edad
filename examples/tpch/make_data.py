"""Writes TPC-H's tables as Parquet, as far as the five queries of this directory use them.

If DuckDB's extension `tpch` is installed (INSTALL tpch), its dbgen makes the rows. Otherwise NumPy draws them by the
rules of TPC-H, revision 3.0.1, section 4.2.3: the distributions are the same, the values are not.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

COLUMNS = {
    "customer": "c_custkey, c_mktsegment",
    "part": "p_partkey, p_brand, p_type, p_size, p_container",
    "orders": "o_orderkey, o_custkey, o_orderdate, o_shippriority",
    "lineitem": "l_orderkey, l_partkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag,"
    " l_linestatus, l_shipdate, l_shipinstruct, l_shipmode",
}
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
FIRST, CURRENT, LAST = np.datetime64("1992-01-01"), np.datetime64("1995-06-17"), np.datetime64("1998-12-31")
SEED = 3


def generated(scale: float) -> dict[str, Any]:
    """Returns the tables, in cents where the specification has money."""
    rng = np.random.default_rng(SEED)

    def one_of(words: Any, count: int) -> Any:
        return np.array(words)[rng.integers(0, len(words), count)]

    def joined(lists: Any, count: int) -> list[str]:
        return [" ".join(words) for words in zip(*(one_of(words, count) for words in lists), strict=True)]

    customers, parts, orders = (max(int(scale * rows), 3) for rows in (150_000, 200_000, 1_500_000))
    customer = {"c_custkey": np.arange(1, customers + 1), "c_mktsegment": one_of(SEGMENTS, customers)}
    part = {
        "p_partkey": np.arange(1, parts + 1),
        "p_brand": [f"Brand#{maker}{brand}" for maker, brand in rng.integers(1, 6, (parts, 2)).tolist()],
        "p_type": joined(TYPES, parts),
        "p_size": rng.integers(1, 51, parts),
        "p_container": joined(CONTAINERS, parts),
    }
    # Of each 32 keys, the first 8 are used. Every third customer has no orders.
    number = np.arange(orders)
    having = customer["c_custkey"][customer["c_custkey"] % 3 != 0]
    days = int((LAST - FIRST).astype(int)) - 151
    order = {
        "o_orderkey": number // 8 * 32 + number % 8 + 1,
        "o_custkey": one_of(having, orders),
        "o_orderdate": FIRST + rng.integers(0, days + 1, orders),
        "o_shippriority": np.zeros(orders, int),
    }
    lines = rng.integers(1, 8, orders)
    count = int(lines.sum())
    partkey, quantity = rng.integers(1, parts + 1, count), rng.integers(1, 51, count)
    ordered = np.repeat(order["o_orderdate"], lines)
    shipped = ordered + rng.integers(1, 122, count)
    received = shipped + rng.integers(1, 31, count)
    lineitem = {
        "l_orderkey": np.repeat(order["o_orderkey"], lines),
        "l_partkey": partkey,
        "l_linenumber": np.arange(count) - np.repeat(lines.cumsum() - lines, lines) + 1,
        "l_quantity": 100 * quantity,
        "l_extendedprice": quantity * (90_000 + partkey // 10 % 20_001 + 100 * (partkey % 1_000)),
        "l_discount": rng.integers(0, 11, count),
        "l_tax": rng.integers(0, 9, count),
        "l_returnflag": np.where(received <= CURRENT, one_of(["R", "A"], count), "N"),
        "l_linestatus": np.where(shipped > CURRENT, "O", "F"),
        "l_shipdate": shipped,
        "l_shipinstruct": one_of(INSTRUCTIONS, count),
        "l_shipmode": one_of(MODES, count),
    }
    return {"customer": customer, "part": part, "orders": order, "lineitem": lineitem}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor; 0.1 has 600,000 line items")
    parser.add_argument("--generate", action="store_true", help="use NumPy even if the extension is installed")
    options = parser.parse_args()
    data = Path(__file__).parent / "data"
    data.mkdir(exist_ok=True)
    database = duckdb.connect()
    source = "NumPy"
    if not options.generate:
        try:
            database.execute("LOAD tpch")
            database.execute(f"CALL dbgen(sf = {options.scale})")
            source = "DuckDB's extension tpch"
        except duckdb.IOException as error:
            print(str(error).splitlines()[0])
    tables = generated(options.scale) if source == "NumPy" else {}
    money = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
    for table, columns in COLUMNS.items():
        if tables:
            database.register(table, pa.table(tables[table]))
        shown = ", ".join(
            f"CAST({name}{' * 0.01' if tables else ''} AS decimal(15, 2)) AS {name}" if name in money else name
            for name in columns.split(", ")
        )
        path = data / f"{table}.parquet"
        database.execute(f"COPY (SELECT {shown} FROM {table}) TO '{path}' (FORMAT parquet)")
        ((rows,),) = database.execute(f"SELECT count(*) FROM '{path}'").fetchall()
        print(f"{path.name}: {rows:,} rows by {source}")


if __name__ == "__main__":
    main()
