"""Conformance checks of the port `sql`, with the types of three dialects."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from dyno.contracts.equality import expect
from dyno.contracts.model import Refused, Tier, Wrong
from dyno.contracts.suite import Opened, by_name
from dyno.suites.sql.port import ISOLATIONS, Session, Sql

TEXTS = (
    "it's",
    'say "x"',
    "100 %, %s %d %(p)s %%",
    ":c ? $1 {p:Int64}",
    "a\\b\\",
    "a\tb\r\nc",
    "ü€😀",
    "",
    " x ",
    "\\N",
)

WRITES = (
    "INSERT INTO t (id, value) VALUES (77, 1)",
    "INSERT INTO t SELECT 77, 1 FROM t WHERE id = 0",
    "UPDATE t SET value = 1",
    "DELETE FROM t",
    "CREATE VIEW v AS SELECT id FROM t",
    "TRUNCATE TABLE t",
    "DROP TABLE t",
)


class Kind(NamedTuple):
    types: tuple[str, str, str]
    """The type's name in ClickHouse, in MariaDB, and elsewhere."""
    values: Sequence[object]


KINDS = {
    "whole": Kind(("Int64", "BIGINT", "BIGINT"), (0, -1, 2**31, -(2**63), 2**63 - 1)),
    "small": Kind(("Int32", "INTEGER", "INTEGER"), (0, 32_767, 32_768, -(2**31), 2**31 - 1)),
    "real": Kind(("Float64", "DOUBLE", "DOUBLE PRECISION"), (0.0, -1.5, 0.1, 1e-300, 1.7976931348623157e308)),
    "exact": Kind(
        ("Decimal(18, 4)", "DECIMAL(18, 4)", "DECIMAL(18, 4)"),
        (Decimal(0), Decimal("-0.0001"), Decimal("12345678.1250"), Decimal(7)),
    ),
    "flag": Kind(("UInt8", "BOOLEAN", "BOOLEAN"), (True, False)),
    "letters": Kind(("String", "VARCHAR(100)", "VARCHAR(100)"), TEXTS),
    # ClickHouse returns bytes that are UTF-8 as text.
    "bytes": Kind(("String", "VARBINARY(200)", "BYTEA"), (b"\xff\0", b"\xfe'\\\n\t%s", bytes(range(128, 256)))),
    "day": Kind(("Date", "DATE", "DATE"), (date(2026, 2, 28), date(1999, 12, 31))),
    # The clocks of central Europe skip this time, so that a session which is not in UTC changes it.
    "moment": Kind(("DateTime", "DATETIME(6)", "TIMESTAMP"), (datetime(2026, 3, 29, 2, 30, 5),)),
    "instant": Kind(("DateTime", "TIMESTAMP(6)", "TIMESTAMP WITH TIME ZONE"), (datetime(2026, 3, 29, 2, 30, 5),)),
    "identifier": Kind(("UUID", "CHAR(36)", "UUID"), (UUID("01234567-89ab-cdef-0123-456789abcdef"),)),
}
FRACTION = Kind(("DateTime64(6)", "DATETIME(6)", "TIMESTAMP"), (datetime(2026, 3, 29, 2, 30, 5, 250_001),))


def create(port: Sql, table: str, kind: Kind = KINDS["whole"]) -> str:
    """Creates a table with the columns `id` and `value`, in the first dialect that the engine accepts. Returns the
    dialect's quotes around names."""
    clickhouse, mariadb, other = kind.types
    attempts = (
        f"CREATE TABLE `{table}` (id Int64, value Nullable({clickhouse})) ENGINE = MergeTree ORDER BY id",
        f"CREATE TABLE `{table}` (id BIGINT PRIMARY KEY, value {mariadb} NULL) ENGINE = InnoDB",
    )
    for attempt in attempts:
        with suppress(Exception):
            port.define(attempt)
            return "`"
    port.rollback()
    port.define(f'CREATE TABLE "{table}" (id BIGINT PRIMARY KEY, value {other})')
    return '"'


def ask(port: Sql, statement: str, *values: object) -> Any:
    """Executes a statement, in which § stands for a parameter."""
    return port.statement(statement.split("§"))(values)


def canonical(value: object) -> object:
    """Returns a value in the form in which the answers of engines are compared."""
    if isinstance(value, (bool, int, float, Decimal)):
        if value == int(value):
            return int(value)
        return float(value)
    if isinstance(value, (date, UUID)):
        return str(value)
    return value


def expect_rows(got: object, rows: Sequence[tuple[object, ...]], what: str) -> None:
    """Checks an answer, which must be a list of tuples, in order."""
    if type(got) is not list or any(type(row) is not tuple for row in got):
        raise Wrong(f"{what}: got {got!r:.80}, expected a list of tuples")
    expect([tuple(map(canonical, row)) for row in got], [tuple(map(canonical, row)) for row in rows], what)


def rows(port: Sql, table: str) -> Any:
    return ask(port, f"SELECT id, value FROM {table} ORDER BY id")


def fill_table(port: Sql, table: str, kind: Kind = KINDS["whole"]) -> list[tuple[int, object]]:
    """Creates a table, loads the values and NULL, and returns the rows."""
    create(port, table, kind)
    values = [*kind.values, None]
    port.load(table, {"id": list(range(len(values))), "value": values})
    return list(enumerate(values))


def check_kind(port: Sql, table: str, kind: Kind) -> None:
    loaded = fill_table(port, table, kind)
    expect_rows(rows(port, table), loaded, f"{table}: rows that were loaded")
    find = port.statement([f"SELECT id FROM {table} WHERE value = ", ""])
    for number, value in loaded[:-1]:
        expect_rows(find([value]), [(number,)], f"{table}: search for {value!r:.40}")
    expect_rows(find([None]), [], f"{table}: search for NULL")


def values(opened: Opened[Sql], tier: Tier) -> None:
    """Values of each type, and NULLs, can be loaded, come back the same, and are found by a parameter."""
    with opened("values", Session()) as port:
        for table, kind in KINDS.items():
            check_kind(port, f"of_{table}", kind)


def fractions(opened: Opened[Sql], tier: Tier) -> None:
    """Times have microseconds."""
    with opened("fractions", Session()) as port:
        check_kind(port, "t", FRACTION)


def parameters(opened: Opened[Sql], tier: Tier) -> None:
    """Parameters may stand in lists, calculations, LIMIT, and among what is selected."""
    with opened("parameters", Session()) as port:
        create(port, "t")
        port.load("t", {"id": list(range(100)), "value": [n * n for n in range(100)]})
        expect_rows(ask(port, "SELECT value FROM t WHERE id = §", 7), [(49,)], "one parameter")
        expect_rows(ask(port, "SELECT id FROM t WHERE id > § ORDER BY id LIMIT §", 7, 2), [(8,), (9,)], "LIMIT")
        expect_rows(ask(port, "SELECT id FROM t WHERE id IN (§, §) ORDER BY id", 5, 3), [(3,), (5,)], "a list")
        expect_rows(ask(port, "SELECT value + § FROM t WHERE id + § = §", 1, 2, 5), [(10,)], "calculations")
        statement = port.statement(["SELECT id FROM t WHERE id = ", " OR value = ", " ORDER BY id"])
        for number in (1, 40_000, 2**40, 2, 3):
            expected = [(number,)] if number < 100 else []
            expect_rows(statement([number, -1]), expected, f"the statement executed again, with {number}")
        for text in TEXTS:
            expect_rows(ask(port, "SELECT § FROM t WHERE id = §", text, 1), [(text,)], f"{text!r} as a parameter")


def texts(opened: Opened[Sql], tier: Tier) -> None:
    """Characters that mark parameters somewhere are plain characters in a statement's text."""
    texts = ("100 %", "%s %d %(p)s %%", ":c ? $1", 'say "x"', "{p} {{}}", "ü€😀")
    with opened("texts", Session()) as port:
        create(port, "t")
        port.load("t", {"id": [11, 12], "value": [1, 2]})
        for text in (*texts, "it''s"):
            right = text.replace("''", "'")
            expect_rows(ask(port, f"SELECT '{text}' FROM t WHERE id = 11"), [(right,)], f"{text}, no parameter")
            expect_rows(ask(port, f"SELECT '{text}' FROM t WHERE id = §", 11), [(right,)], f"{text}, a parameter")
        expect_rows(ask(port, "SELECT id /* 5 % ? */ FROM t WHERE id % 11 = § ORDER BY id", 1), [(12,)], "modulo")


def keywords(opened: Opened[Sql], tier: Tier) -> None:
    """A table whose name is a keyword can be loaded."""
    with opened("keywords", Session()) as port:
        mark = create(port, "order")
        port.load("order", {"id": [1], "value": [5]})
        expect_rows(ask(port, f"SELECT value FROM {mark}order{mark}"), [(5,)], "rows of a table called order")


def names(opened: Opened[Sql], tier: Tier) -> None:
    """A named statement returns the names of its columns, and its rows."""
    with opened("names", Session()) as port:
        create(port, "t")
        port.load("t", {"id": [1], "value": [5]})
        find = port.statement(["SELECT value AS v, id FROM t WHERE id = ", ""], named=True)
        for number, right in ((1, [(5, 1)]), (2, [])):
            columns, answer = find([number])
            expect(list(columns), ["v", "id"], f"names of columns, {len(right)} rows")
            expect_rows(answer, right, "rows of a named statement")


def scripts(opened: Opened[Sql], tier: Tier) -> None:
    """A schema has several statements, with semicolons in comments and quotes."""
    with opened("scripts", Session()) as port:
        create(port, "t")
        port.load("t", {"id": [1, 2], "value": [1, 2]})
        port.define(
            "-- a; comment\nCREATE VIEW v AS SELECT id, 'a;''b' AS q /* ; */ FROM t;;\n"
            "CREATE VIEW w AS SELECT id FROM t -- ;\n WHERE id > 1\n; -- the end;\n"
        )
        expect_rows(ask(port, "SELECT q FROM v WHERE id = 1"), [("a;'b",)], "the first statement's view")
        expect_rows(ask(port, "SELECT id FROM w"), [(2,)], "the second statement's view")


def counts(opened: Opened[Sql], tier: Tier) -> None:
    """A statement without rows returns the number of rows that it inserted, deleted, or matched to update."""
    with opened("counts", Session()) as port:
        create(port, "t")
        insert = port.statement(["INSERT INTO t (id, value) VALUES (", ", ", ")"])
        expect([insert([1, 5]), insert([2, None]), insert([3, 5])], [1, 1, 1], "rows of an INSERT")
        expect(ask(port, "UPDATE t SET value = § WHERE id <= §", 5, 2), 2, "rows of an UPDATE, one not changed by it")
        expect(ask(port, "UPDATE t SET value = 0 WHERE id = §", 9), 0, "rows of an UPDATE that matches none")
        expect(ask(port, "BEGIN"), 0, "rows of BEGIN")
        expect(ask(port, "DELETE FROM t WHERE value = 5"), 3, "rows of a DELETE")
        expect(ask(port, "COMMIT"), 0, "rows of COMMIT")


def rollback(opened: Opened[Sql], tier: Tier) -> None:
    """A transaction that is rolled back, or a load that fails, leaves no trace; the connection goes on."""
    with opened("rollback", Session()) as port:
        port.rollback()
        before = fill_table(port, "t")
        insert = port.statement(["INSERT INTO t (id, value) VALUES (", ", ", ")"])
        ask(port, "BEGIN")
        insert([50, 1])
        port.rollback()
        expect_rows(rows(port, "t"), before, "rows after a rollback")
        ask(port, "BEGIN")
        insert([50, 1])
        expect_error(lambda: insert([0, 1]), "a second row with the same key", port)
        port.rollback()
        expect_rows(rows(port, "t"), before, "rows after a rollback of a failed transaction")
        expect_error(lambda: port.load("t", {"id": [70, 1, 71], "value": [0, 0, 0]}), "a load with a known key", port)
        expect_rows(rows(port, "t"), before, "rows after a load that failed")
        ask(port, "BEGIN")
        expect(insert([51, 1]), 1, "rows of an INSERT after rollbacks")
        ask(port, "COMMIT")
        expect_rows(rows(port, "t"), [*before, (51, 1)], "rows after a commit")


def expect_error(do: Callable[[], object], what: str, port: Sql) -> None:
    """Checks that a call fails, and not because of another transaction."""
    try:
        do()
    except Exception as error:
        expect(port.aborted(error), False, f"aborted by others: {what}")
    else:
        raise Wrong(f"{what} raised nothing")


def persistence(opened: Opened[Sql], tier: Tier) -> None:
    """Unless the tier is volatile, tables are there after closing and opening, for a session that only reads too."""
    with opened("persistence", Session()) as port:
        stored = fill_table(port, "t")
    if tier is Tier.VOLATILE:
        return
    with opened("persistence", Session(read_only=True)) as port:
        expect_rows(rows(port, "t"), stored, "rows after opening again")
        for write in WRITES:
            expect_error(lambda write=write: ask(port, write), f"read-only: {write}", port)  # type: ignore[misc]
        port.rollback()
        expect_error(lambda: port.define("CREATE TABLE more (id BIGINT)"), "read-only: CREATE TABLE", port)
        port.rollback()
        expect_error(lambda: port.load("t", {"id": [78], "value": [1]}), "read-only: a load", port)
        port.rollback()
        expect_rows(rows(port, "t"), stored, "rows that a session should only read")


def isolations(opened: Opened[Sql], tier: Tier) -> None:
    """An isolation is either refused or works."""
    for isolation in ISOLATIONS:
        try:
            with opened(f"isolation-{isolation}", Session(isolation)) as port:
                stored = fill_table(port, "t")
                expect_rows(rows(port, "t"), stored, f"rows with {isolation}")
        except Refused as refused:
            if isolation not in str(refused):
                raise Wrong(f"refusal of {isolation} does not name it: {refused}") from None


def commits(one: Sql, other: Sql) -> None:
    """Two clients see each other's rows when these are committed."""
    stored = fill_table(one, "t")
    expect_rows(rows(other, "t"), stored, "rows that another client has loaded")
    other.load("t", {"id": [90], "value": [1]})
    expect_rows(rows(one, "t"), [*stored, (90, 1)], "rows that the other client has loaded")


CHECKS = by_name(
    values, fractions, parameters, texts, keywords, names, scripts, counts, rollback, persistence, isolations
)
BRIEF = {name: CHECKS[name] for name in ("parameters", "names")}
"""Checks that take very little time. Workers run them before measuring."""
TWO_CLIENT_CHECKS: dict[str, Callable[[Sql, Sql], None]] = {"commits": commits}
