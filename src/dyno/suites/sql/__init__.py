"""The user's own SQL: how fast do engines execute it, and do they agree on the answers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dyno.contracts.model import Phase, Preset, UsageError, Value
from dyno.contracts.roles import EngineEntry, FileDefinedSuite, Flag, FlaggedSuite, NativeSuite, RemoteSuite
from dyno.contracts.settings import Setting, integer

if TYPE_CHECKING:
    from dyno.suites.sql.definition import Definition

PRESETS = {
    "quick": Preset({}, samples=3, budget=2, timeout=120),
    "standard": Preset({}, samples=5, budget=10, timeout=600),
    "full": Preset({}, samples=5, budget=60, timeout=3_600),
}
PARAMS: tuple[Setting, ...] = (
    Setting("operations", integer(0, 1_000_000), 0, "transactions of each client; 0: until the budget is spent"),
)
TRIED = 20
"""Operations of each transaction that --try shows."""
CHECKED = "every answer, against those of the other engines and trials"
INVARIANTS = "with one client, every answer against those of the other engines; the declared checks afterwards"


class SqlSuite(FileDefinedSuite, FlaggedSuite, NativeSuite, RemoteSuite):
    """The suite `sql`. A definition gives it its phases, which are transactions and mixes, and its parameters, which
    are the variables that no script sets."""

    name = "sql"
    title = "the user's own SQL, with checked answers"
    ports = ("sql",)
    params, presets = PARAMS, PRESETS
    phases: tuple[Phase, ...] = ()

    flags = (
        Flag("query", ("-q", "--query"), "With suite sql: the transaction, such as 'SELECT 1'.", "SQL"),
        Flag("change", ("--change",), "With suite sql: this database of your server may be changed.", "DATABASE"),
        Flag(
            "trying", ("--try",), "With suite sql: show some answers; measure nothing.", tries={"operations": TRIED}
        ),
    )
    defined_by = "by the table [sql] of a plan file, or a query by -q"
    native_limits = "it has \\gset, or a transaction, a lock or a setting that is not within BEGIN; ...; COMMIT;"
    definition: Definition

    def inline_definition(self, definition: Mapping[str, object], base: Path) -> dict[str, object]:
        from dyno.suites.sql.inlining import inline_definition

        return inline_definition(definition, base)

    def apply_flags(
        self, values: Mapping[str, object], definition: Mapping[str, object] | None, engines: Sequence[EngineEntry]
    ) -> Mapping[str, object]:
        if "query" in values:
            if definition is not None:
                raise UsageError("-q and a plan file with [sql] exclude each other")
            definition = {"transactions": {"query": {"script": values["query"]}}}
            # A query reads the tables that are there, if the user names a server.
            if any(("url" if isinstance(each, Mapping) else "url=") in each for each in engines):
                definition = {"data": "there", **definition}
        if definition is None:
            flag = "--try"
            if "change" in values:
                flag = "--change"
            raise UsageError(f"{flag} needs a query: give it by -q, or in a plan file with [sql]")
        if "change" in values:
            definition = {**definition, "change": values["change"]}
        return definition

    def apply_definition(self, definition: Mapping[str, object]) -> None:
        from dyno.suites.sql.definition import parse_definition

        self.definition = parse_definition(definition)
        writing = {
            name: any(each.transactions[name].writes for each in self.definition.every)
            for name in self.definition.transactions
        }
        phases = [_phase(name, f"transaction {name}", writes) for name, writes in writing.items()]
        for name, weights in self.definition.mixes.items():
            total = sum(weights.values())
            title = "mix of " + ", ".join(f"{weight / total:.0%} {each}" for each, weight in weights.items())
            kinds = {each: writing[each] for each in weights}
            phases.append(_phase(name, title, any(kinds.values()), kinds))
        self.phases = tuple(phases)
        self.on_user_server = self.definition.there
        self.variants = {name: each.rows for name, each in self.definition.variants.items()}
        taken = sorted({"clients", "rate", *(setting.name for setting in PARAMS)} & {*self.definition.given})
        if taken:
            raise UsageError(
                f"sql: no variable can be called {taken[0]}, because a parameter of each run is: rename it"
            )
        self.params = (
            *PARAMS,
            *(Setting(name, partial(self._variable, name), "", f"variable {name}") for name in self.definition.given),
        )

    def _variable(self, name: str, text: str) -> Value:
        """Parses the value of a variable that no script sets."""
        from dyno.suites.sql.guard import REMEDY, find_effect
        from dyno.suites.sql.language.operations import QUERY, given_value

        if not text:
            raise ValueError(f"no script sets this variable; give it a value: -p {name}=1, -p {name}=uniform:1..9")
        reads = text.startswith(QUERY) and self.definition.session.read_only
        if reads and (effect := find_effect(text.removeprefix(QUERY))):
            raise ValueError(f"{effect}: {REMEDY}")
        try:
            given_value(text, self.definition, 0)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return text

    def can_load_natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether native load can run all scripts of the phase."""
        from dyno.suites.sql.native import can_load_script

        members = self.definition.mixes.get(phase, [phase])
        transactions = [each.transactions[name] for each in self.definition.every for name in members]
        return all(can_load_script(script) for each in transactions for script in each.scripts.values())


def _phase(name: str, title: str, writes: bool, kinds: Mapping[str, bool] | None = None) -> Phase:
    if writes:
        temperature = "none"
        checked = INVARIANTS
    else:
        temperature = "hot"
        checked = CHECKED
    return Phase(name, title, "txn", writes, temperature, checked, kinds=kinds or {})


SUITE = SqlSuite()
