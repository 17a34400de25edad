"""The definition of a suite of the user's own SQL: the table `sql` of a plan file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno.contracts.model import BASE, SETTINGS, UsageError, Value
from dyno.contracts.roles import Variant
from dyno.contracts.settings import literal, unknown_name_message
from dyno.contracts.value_types import MOST_TEXT, JsonMapping, JsonObject
from dyno.suites.sql.data.tables import SqlTable, read_tables
from dyno.suites.sql.guard import REMEDY, find_effect
from dyno.suites.sql.language.script import OF_OPERATION, Script, parse
from dyno.suites.sql.language.splitter import statements
from dyno.suites.sql.port import ISOLATIONS, Session

THERE = "there"
KEYS = (
    *("schema", "after", "isolation", "reference", "data", "change", "tables", "transactions", "mixes", "checks"),
    "variants",
)
OF_VARIANT, OF_VARIANTS_TRANSACTION = ("schema", "after", "transactions", "settings"), ("script", "affects")
MOST_VARIANTS, LONGEST_VARIANT = 100, 20
OF_TRANSACTION = ("script", "compare", "ordered", "affects", "tolerance")
OF_CHECK = ("says", "query", "equals", "unchanged", "grows_by")
HOW = OF_CHECK[2:]
"""Keys of a check of which it has exactly one."""
TOLERANCE = 1e-6
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
ALL = "all"
COUNT = "count"
NONE = "none"
"""What is compared of an answer, if not columns: everything, the number of rows, or nothing."""
ANY = ""
"""Key of the text for the engines that have no text of their own."""


@dataclass(frozen=True)
class Transaction:
    """One kind of operation. It is a phase of its own, and may be part of mixes."""

    name: str
    scripts: Mapping[str, Script]
    """By engine; ANY for the others."""
    compare: str | tuple[str, ...] = ALL
    ordered: bool = False
    """Whether the order of rows is compared too."""
    affects: tuple[int, ...] = ()
    """Rows that each changing statement must change; empty: any number."""
    tolerance: float = TOLERANCE

    @property
    def writes(self) -> bool:
        return any(script.writes for script in self.scripts.values())

    def script(self, engine: str) -> Script:
        return self.scripts.get(engine, self.scripts[ANY])


@dataclass(frozen=True)
class StoreCheck:
    """A query whose answer, one number, is checked after each phase that writes."""

    says: str
    query: str
    how: str
    """One of HOW."""
    value: Any = None
    """The number that the answer `equals`, or the transactions by whose number of commits it `grows_by`."""


@dataclass(frozen=True)
class Definition:
    schema: Mapping[str, str] = field(default_factory=dict)
    """Statements that create the tables, by engine like a transaction's scripts. `after` has those that follow the
    rows."""
    after: Mapping[str, str] = field(default_factory=dict)
    isolation: str = ""
    reference: str = ""
    """The engine whose answers decide when as many engines give other answers; '' for none."""
    tables: Mapping[str, SqlTable] = field(default_factory=dict)
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    mixes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    checks: tuple[StoreCheck, ...] = ()
    there: bool = False
    """Whether the transactions use the tables that are there, in the user's own database."""
    change: str = ""
    """The name of the user's database that may be changed; '' if none may."""
    variants: Mapping[str, DefinedVariant] = field(default_factory=dict)
    """By name. A variant's own definition has none."""

    @property
    def every(self) -> tuple[Definition, ...]:
        """This definition, and those of its variants."""
        return (self, *(each.definition for each in self.variants.values()))

    @property
    def given(self) -> tuple[str, ...]:
        """Variables that no script sets: the suite's parameters."""
        transactions = (each for definition in self.every for each in definition.transactions.values())
        inputs = (name for each in transactions for script in each.scripts.values() for name in script.given)
        return tuple(sorted(set(inputs) - set(OF_OPERATION)))

    @property
    def session(self) -> Session:
        """How each client works."""
        return Session(self.isolation, self.there and not self.change, self.there, self.change)

    def own_texts(self, engine: str) -> bool:
        """Returns whether the engine runs another text than the others."""
        texts = [self.schema, self.after, *(each.scripts for each in self.transactions.values())]
        return any(engine in each for each in texts)


@dataclass(frozen=True)
class DefinedVariant:
    definition: Definition
    """The definition with the variant's texts in place of the others."""
    rows: Variant


def parse_definition(data: JsonMapping) -> Definition:
    """Reads an inlined definition. Raises UsageError."""
    _check_keys("sql", data, KEYS)
    tables = as_table("sql.tables", data.get("tables", {}))
    transactions = {
        _name("sql.transactions", name): _transaction(name, one)
        for name, one in as_table("sql.transactions", data.get("transactions", {})).items()
    }
    if not transactions:
        raise UsageError('sql: there is no transaction; add [sql.transactions.NAME] with script = "..."')
    if tables and "schema" not in data:
        raise UsageError("sql: schema is missing: the statements that create the tables")
    mixes = {}
    for name, weights in as_table("sql.mixes", data.get("mixes", {})).items():
        where = f"sql.mixes.{_name('sql.mixes', name)}"
        if name in transactions:
            raise UsageError(f"{where}: there is a transaction of this name")
        mixes[name] = _weights(where, weights, transactions)
    _check_there(data, transactions.values())
    isolation = data.get("isolation", "")
    if isolation and isolation not in ISOLATIONS:
        raise UsageError(unknown_name_message("sql.isolation", isolation, ISOLATIONS))
    checks = data.get("checks", [])
    if not isinstance(checks, list):
        raise UsageError(f"sql.checks: expected [[sql.checks]], got {literal(checks)}")
    variants = as_table("sql.variants", data.get("variants", {}))
    if len(variants) > MOST_VARIANTS:
        raise UsageError(f"sql.variants: expected at most {MOST_VARIANTS}, got {len(variants):,}")
    return Definition(
        schema=data.get("schema", {ANY: ""}),
        after=data.get("after", {ANY: ""}),
        isolation=isolation,
        reference=_text("sql.reference", data.get("reference", "")),
        tables=read_tables({name: _file(one) for name, one in tables.items()}, Path()),
        transactions=transactions,
        mixes=mixes,
        checks=tuple(_check(f"sql.checks, number {at}", one, transactions) for at, one in enumerate(checks, 1)),
        there=data.get("data") == THERE,
        change=_text("sql.change", data.get("change", "")),
        variants={_name("sql.variants", name): _variant(name, one, data) for name, one in variants.items()},
    )


def _variant(name: str, changes: Any, data: JsonMapping) -> DefinedVariant:
    """Reads a variant of the definition `data`. Raises UsageError."""
    where = f"sql.variants.{name}"
    if len(name) > LONGEST_VARIANT:
        raise UsageError(f"{where}: expected a name of at most {LONGEST_VARIANT} characters")
    if name == BASE:
        raise UsageError(f"{where}: {BASE} is the definition without a variant: choose another name")
    _check_keys(where, as_table(where, changes), OF_VARIANT)
    if not any(changes.values()):
        raise UsageError(f"{where}: it changes nothing; expected {', '.join(OF_VARIANT)}")
    transactions = dict(data["transactions"])
    for each, change in as_table(f"{where}.transactions", changes.get("transactions", {})).items():
        if each not in transactions:
            raise UsageError(unknown_name_message(f"{where}.transactions: transaction", each, transactions))
        of_each = f"{where}.transactions.{each}"
        _check_keys(of_each, as_table(of_each, change), OF_VARIANTS_TRANSACTION)
        transactions[each] = {**transactions[each], **change}
    texts = {key: changes[key] for key in ("schema", "after") if key in changes}
    try:
        definition = parse_definition({**data, **texts, "transactions": transactions, "variants": {}})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    options = _settings(f"{where}.settings", changes.get("settings", {}))
    return DefinedVariant(definition, Variant(options, everywhere=changes.keys() != {"settings"}))


def _settings(where: str, data: object) -> dict[str, dict[str, Value]]:
    """Returns the options of each engine. The engine's own settings may be a table. Raises UsageError."""
    engines: dict[str, dict[str, Value]] = {}
    for engine, options in as_table(where, data).items():
        engines[engine] = {}
        for option, value in as_table(f"{where}.{engine}", options).items():
            at = f"{where}.{engine}.{option}"
            if option == SETTINGS and isinstance(value, dict):
                texts = {name: _scalar(f"{at}.{name}", each) for name, each in value.items()}
                value = shlex.join(f"{name}={text}" for name, text in texts.items())
            engines[engine][option] = _scalar(at, value)
    return engines


def _scalar(where: str, value: object) -> Value:
    """Returns a number or a text; 'on' or 'off' for a truth value. Raises UsageError."""
    if isinstance(value, bool):
        if value:
            return "on"
        return "off"
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{where}: expected a text or a number, got {literal(value)}")
    return value


def _file(table: object) -> object:
    """Returns the path of an inlined table with a file; another table as it is."""
    if isinstance(table, dict) and "sha256" in table:
        return table["file"]
    return table


def _check_there(data: Mapping[str, object], transactions: Iterable[Transaction]) -> None:
    """Raises UsageError unless the keys that say where the tables come from fit together."""
    if data.get("data", THERE) != THERE:
        raise UsageError(f'sql.data: expected "{THERE}", or the tables in [sql.tables], got {literal(data["data"])}')
    if "data" not in data:
        if "change" in data:
            raise UsageError(f'sql.change: it is for a database of your own, whose tables data = "{THERE}" uses')
        return
    if both := [key for key in ("schema", "after", "tables") if key in data]:
        raise UsageError(f'sql.data = "{THERE}" and sql.{both[0]} exclude each other')
    if data.get("change"):
        return
    for each in transactions:
        for script in each.scripts.values():
            for statement in script.statements:
                if effect := find_effect(" ? ".join(statement.pieces)):
                    raise UsageError(f"{script.where}, line {statement.line}: {effect}: {REMEDY}")


def _transaction(name: str, data: object) -> Transaction:
    where = f"sql.transactions.{name}"
    if not isinstance(data, Mapping) or "script" not in data:
        raise UsageError(f'{where}: script is missing; add script = "SELECT 1"')
    _check_keys(where, data, OF_TRANSACTION)
    if ANY not in data["script"]:
        raise UsageError(f'{where}.script: the text of the other engines is missing; add "" = "SELECT 1"')
    scripts = {engine: parse(one, f"{where}{engine and '.'}{engine}", None) for engine, one in data["script"].items()}
    compare = data.get("compare", ALL)
    if isinstance(compare, list) and compare and all(isinstance(column, str) for column in compare):
        compare = tuple(compare)
    elif compare not in (ALL, COUNT, NONE):
        raise UsageError(f'{where}.compare: expected names of columns, "count" or "none", got {literal(compare)}')
    affects = data.get("affects", [])
    if not isinstance(affects, list) or not all(type(rows) is int and rows >= 0 for rows in affects):
        raise UsageError(f"{where}.affects: expected numbers of rows, got {literal(affects)}")
    for script in scripts.values():
        changing = sum(statement.writes for statement in script.statements)
        if isinstance(compare, tuple) and (len(script.statements) != 1 or changing):
            raise UsageError(f"{where}.compare: columns can be named of a script of one SELECT only")
        if affects and len(affects) != changing:
            raise UsageError(f"{where}.affects: {len(affects)} numbers for {changing} statements that change rows")
    ordered, tolerance = data.get("ordered", False), data.get("tolerance", TOLERANCE)
    if type(ordered) is not bool:
        raise UsageError(f"{where}.ordered: expected true or false, got {literal(ordered)}")
    if type(tolerance) not in (int, float) or not 0 <= tolerance < 1:
        raise UsageError(f"{where}.tolerance: expected a share of the value, such as 1e-6, got {literal(tolerance)}")
    return Transaction(name, scripts, compare, ordered, tuple(affects), float(tolerance))


def _weights(where: str, weights: Any, transactions: Collection[str]) -> dict[str, float]:
    _check_keys(where, as_table(where, weights), transactions, "transaction")
    for name, weight in weights.items():
        if type(weight) not in (int, float) or not 0 < weight < 1e9:
            raise UsageError(f"{where}.{name}: expected a weight above 0, got {literal(weight)}")
    if not weights:
        raise UsageError(f"{where}: expected weights of transactions, got none")
    return {name: float(weight) for name, weight in weights.items()}


def _check(where: str, data: Any, transactions: Collection[str]) -> StoreCheck:
    _check_keys(where, as_table(where, data), OF_CHECK)
    hows = [how for how in HOW if how in data]
    if len(hows) != 1 or "query" not in data:
        raise UsageError(f"{where}: expected a query and one of {', '.join(HOW)}")
    (how,), query = hows, _text(f"{where}.query", data["query"])
    if len(list(statements(query))) != 1:
        raise UsageError(f"{where}.query: expected one statement, got {literal(query)}")
    value = data[how]
    if how == "unchanged" and value is not True:
        raise UsageError(f"{where}.unchanged: expected true, got {literal(value)}")
    if how == "grows_by":
        if isinstance(value, list):
            value = tuple(value)
        else:
            value = (value,)
        for name in value:
            if str(name) not in transactions:
                raise UsageError(unknown_name_message(f"{where}.grows_by: transaction", str(name), transactions))
    if how == "equals" and type(value) not in (int, float):
        raise UsageError(f"{where}.equals: expected a number, got {literal(value)}")
    return StoreCheck(_text(f"{where}.says", data.get("says", query)), query, how, value)


def as_table(where: str, value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected a table, got {literal(value)}")
    return value


def _check_keys(where: str, data: Mapping[str, object], keys: Iterable[str], what: str = "key") -> None:
    for key in data:
        if key not in keys:
            raise UsageError(unknown_name_message(f"{where}: {what}", key, list(keys)))


def _name(where: str, name: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(f"{where}: {literal(name)}: expected a name of up to 40 of a-z, 0-9, _ and -")
    return name


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise UsageError(f"{where}: expected a text of at most {MOST_TEXT:,} characters, got {literal(value)}")
    return value
