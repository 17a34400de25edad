"""Trial of the suite `sql`: the tables, the user's transactions, and the comparison of their answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any

from dyno.contracts.engine import Engine
from dyno.contracts.equality import shorten
from dyno.contracts.model import BASE, VARIANT, Caveat, Fact, Phase, Refused, Wrong
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.roles import NativeWorkload
from dyno.contracts.suite import Failure, Job, Operations, Work
from dyno.suites._shared.store import RemoteStore
from dyno.suites.sql import conformance
from dyno.suites.sql.checks.answers import canonical, format_rows, normalize_rows, rows_agree
from dyno.suites.sql.checks.book import AnswerRecord, Book
from dyno.suites.sql.data.tables import blocks
from dyno.suites.sql.definition import ANY, COUNT, NONE, TOLERANCE, Definition, Transaction
from dyno.suites.sql.digests import FAILED, Digest, digests
from dyno.suites.sql.language.operations import CONTROL, QUERY, Aborted, Kinds, compile_script
from dyno.suites.sql.language.script import BATCH
from dyno.suites.sql.native import NativeMix, NativeTransaction, can_load_script
from dyno.suites.sql.port import DEFAULT, Rights, Session, Sql, may_write
from dyno.suites.sql.reading import ReadingPort
from dyno.suites.sql.statement_times import ClientCall, StatementTimer

FEW = 20
"""Operations of a trial whose answers are all in the run file."""
ROUND = 1_000
"""Batches of a round, which ends earlier when its time is over."""
WARM = 1_000_000
"""Rounds from this number on warm up: see `measure.warm_up`."""
ANSWERS = "answers"
"""Directory of the trial with what each client was answered."""
COUNTED = ("judged", "empty", "same", "aborts")


NOTHING = Definition()


class SqlWorkload(RemoteStore, NativeWorkload):
    checks = conformance.BRIEF

    def __init__(self, job: Job, definition: Definition = NOTHING) -> None:
        super().__init__(job)
        # A row of a variant has a definition of its own.
        variant = definition.variants.get(str(job.options.get(VARIANT)))
        if variant is None:
            self._definition = definition
        else:
            self._definition = variant.definition
        self._dirty = False
        self._reading = False
        """Whether clients open an embedded store for reading, so that statements reach no other files either."""
        self._before: dict[str, Any] = {}
        """Answers of the checks' queries before the phase."""
        self._found: dict[str, Sequence[object]] = {}
        """Values of the variables that are to be chosen from a query's rows."""
        self._rights = Rights()
        self._recordings: dict[tuple[str, int], Recording] = {}
        """By phase and client; in the clients' processes."""

    def port_arguments(self) -> tuple[Session]:
        session = self._definition.session
        return (session._replace(read_only=session.read_only or self._reading),)

    def port(self, engine: Engine, session: Session = DEFAULT) -> Any:
        port = super().port(engine, session)
        if session.read_only and session.there:
            return ReadingPort(port)
        return port

    def _text_of_engine(self, texts: Mapping[str, str]) -> str:
        return texts.get(self._job.spec.name, texts.get(ANY, ""))

    def _members(self, phase: Phase) -> list[Transaction]:
        names = self._definition.mixes.get(phase.name, [phase.name])
        return [self._definition.transactions[name] for name in names]

    def conformance(self) -> None:
        # The checks create tables, which a login for the user's own tables may not be able to.
        if not self._definition.there:
            super().conformance()

    # -- the store ------------------------------------------------------------------------------------------

    def prepare(self, phase: Phase) -> None:
        self._reading = False
        if self._dirty:
            self.close()
        if self._store is None:
            self.begin()
            if not self._definition.there:
                self.load(self._fill)
                self.keep_up()
            elif not self._definition.change:
                with self.connect() as port:
                    self._rights = port.protection.rights()
            self._find()
        self._dirty = phase.writes
        self._reading = not phase.writes and self._job.spec.server is None
        if phase.writes and not self._job.spec.floor:
            with self.connect() as port:
                self._before = {check.query: _number(port, check.query) for check in self._definition.checks}

    def _find(self) -> None:
        """Executes the queries that give values of variables. Rows are sorted, so that all engines choose alike."""
        queries = {name: str(self._job.params[name]) for name in self._definition.given}
        queries = {name: text.removeprefix(QUERY) for name, text in queries.items() if text.startswith(QUERY)}
        if not queries or self._found:
            return
        with self.connect() as port:
            for name, query in queries.items():
                if self._job.spec.floor:
                    rows = [(1,)]
                else:
                    rows = port.statement((query,))(())
                if isinstance(rows, list):
                    values = [row[0] for row in rows if row[0] is not None]
                else:
                    values = []
                if not values:
                    raise Refused(f"variable {name}: {query!r} found no value to choose from")
                self._found[name] = sorted(values, key=lambda value: (str(type(value)), value))

    def _fill(self) -> None:
        definition = self._definition
        with self.connect() as port:
            if schema := self._text_of_engine(definition.schema):
                port.define(schema)
            for table in definition.tables.values():
                for rows in blocks(table, definition.tables, self._job.seed):
                    port.load(table.name, rows)
            if after := self._text_of_engine(definition.after):
                port.define(after)
        self._written = True

    def describe_store(self) -> dict[str, object]:
        home = self._job.home / ANSWERS
        files = {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}
        return {**super().describe_store(), "found": self._found, "answers": files}

    def join_store(self, state: Any) -> None:
        super().join_store(state)
        self._found = state["found"]

    def learn_writes(self, before: Any, after: Any) -> None:
        # Each client has files of its own.
        for name, content in after["answers"].items():
            path = self._job.home / ANSWERS / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def native_port(self, phase: Phase) -> type[NativeSql] | None:
        if self._job.options.get(CLIENT) != NATIVE_CLIENT:
            return None
        scripts = [script for each in self._members(phase) for script in each.scripts.values()]
        if all(map(can_load_script, scripts)):
            return NativeSql
        return None

    # -- operations -----------------------------------------------------------------------------------------

    def work(self, phase: Phase, port: Sql | NativeSql, client: int, clients: int, round: int) -> Iterator[Work]:
        kinds = Kinds(self._definition, self._job, phase.name, client, self._found)
        client_call = ClientCall(partial(self._call, kinds, port), self._make_timers(kinds, port))
        record = self._get_recording(phase, kinds, client)
        most = int(self._job.params["operations"])
        alone = len(kinds.transactions) == 1
        for number in range(round * ROUND, (round + 1) * ROUND):
            positions, inputs = kinds.batch(number)
            left = BATCH
            if most:
                left = min(most - (number - round * ROUND) * BATCH, BATCH)
            if left <= 0:
                return
            if alone:
                arguments: Sequence[object] = inputs
                names = None
            else:
                arguments = list(zip(positions, inputs, strict=True))
                names = [kinds.transactions[at].name for at in positions[:left]]
            yield Operations(
                calls=partial(client_call.start_slice, spans := list[list[list[int]]]()),
                arguments=arguments[:left],
                check=partial(record.check, number, positions, inputs),
                kinds=names,
                held=port.transaction() if isinstance(port, ReadingPort) else None,
                parts=partial(client_call.take_spans, spans) if client_call.timed else None,
            )

    def _make_timers(self, kinds: Kinds, port: Any) -> Sequence[StatementTimer]:
        """Returns a timer for each transaction; none of a null engine, and of native load, which sends all statements
        at once."""
        if isinstance(port, NativeSql) or self._job.spec.floor:
            return []
        alone = len(kinds.transactions) == 1
        pairs = zip(kinds.scripts, kinds.transactions, strict=True)
        return [StatementTimer(script, "" if alone else f"{each.name}: ") for script, each in pairs]

    def _call(self, kinds: Kinds, port: Any, timers: Sequence[StatementTimer] = ()) -> Any:
        """Returns the operations' callable, or the call for native load if the port is one for that. With `timers`,
        one for each transaction, they time its statements."""
        pairs = list(zip(kinds.scripts, kinds.transactions, strict=True))
        if isinstance(port, NativeSql):
            calls = [NativeTransaction(script, port.port, isinstance(each.compare, tuple)) for script, each in pairs]
            if len(calls) == 1:
                return calls[0]
            return NativeMix(calls)
        judged = not self._job.spec.floor
        runs = []
        for (script, each), timer in zip_longest(pairs, timers):
            named = isinstance(each.compare, tuple)
            if timer is None:
                runs.append(compile_script(script, port, named, judged))
            else:
                timed = compile_script(script, port, named, judged, timer.time_statement)
                runs.append(timer.time_transaction(timed))
        if len(runs) == 1:
            return runs[0]
        return lambda argument: runs[argument[0]](argument[1])

    def _get_recording(self, phase: Phase, kinds: Kinds, client: int) -> Recording:
        key = (phase.name, client)
        if key not in self._recordings:
            self._recordings[key] = Recording(self, phase, kinds, client)
        return self._recordings[key]

    # -- answers --------------------------------------------------------------------------------------------

    def answers_home(self, phase: Phase) -> Path:
        return self._job.home / ANSWERS / phase.name

    def comparable(self, phase: Phase) -> bool:
        """Returns whether each answer depends on its number alone. What is written to tables of the user's stays."""
        return not phase.writes or (self._job.clients == 1 and not self._definition.there)

    def facts(self, phase: Phase) -> Mapping[str, Fact]:
        if self._job.spec.floor:
            return {}
        home, clients = self.answers_home(phase), self._job.clients
        counted: Counter[str] = Counter()
        for path in home.glob("*.counts"):
            counted.update(json.loads(path.read_text()))
        facts: dict[str, Fact] = {f"answers_{name}": counted[name] for name in COUNTED if counted[name]}
        members = self._members(phase)
        unknown = all(each.compare == NONE for each in members)
        if unknown or not self.comparable(phase) or self._job.sealed is None or (phase.writes and counted["warm"]):
            # Several clients write in an order of their own, and a warm-up ends in a state of its own.
            if not self._definition.checks and not any(each.affects for each in members):
                facts["answers_unchecked"] = True
            return facts
        key = json.dumps([self._job.params, clients], sort_keys=True)
        place = f"{phase.name}-{blake2b(key.encode(), digest_size=8).hexdigest()}"
        book = Book(
            self._job.sealed.parent / "answers" / place,
            clients,
            any(each.ordered for each in members),
            max(each.tolerance for each in members),
        )
        records = [AnswerRecord(home, client) for client in range(clients)]
        if 0 < int(self._job.params["operations"]) <= FEW:
            ordered = any(each.ordered for each in members)
            answers = [
                (self._describe(phase, 0, at), shorten(normalize_rows(rows, ordered)))
                for at, rows in records[0].rows().items()
            ]
            facts["answers_shown"] = json.dumps(answers)
        variant = self._job.options.get(VARIANT, BASE)
        if variant == BASE:
            engine = self._job.spec.name
        else:
            engine = f"{self._job.spec.name} {variant}"
        entered = book.enter(records, engine, self._job.sealed.name, partial(self._describe, phase))
        return {**facts, **entered}

    def _describe(self, phase: Phase, client: int, number: int) -> str:
        kinds = Kinds(self._definition, self._job, phase.name, client, self._found)
        positions, inputs = kinds.batch(number // BATCH)
        at = positions[number % BATCH]
        values = zip(kinds.scripts[at].inputs, inputs[number % BATCH], strict=True)
        given = ", ".join(f"{name}={value!r}" for name, value in values)
        of = ""
        if self._job.clients > 1:
            of = f" of client {client + 1}"
        return f"{kinds.transactions[at].name}, operation {number + 1:,}{of} ({given})"

    # -- afterwards -----------------------------------------------------------------------------------------

    def verify(self, phase: Phase) -> int:
        if not phase.writes:
            return 0
        committed: Counter[str] = Counter()
        for path in self.answers_home(phase).glob("*.commits"):
            committed.update(json.loads(path.read_text()))
        with self.connect() as port:
            for check in self._definition.checks:
                number, before = _number(port, check.query), self._before[check.query]
                expected = canonical(check.value, TOLERANCE)
                if check.how == "unchanged":
                    expected = before
                elif check.how == "grows_by":
                    expected = before + sum(committed[name] for name in check.value)
                if not rows_agree([[[number]]], [[[expected]]], False, TOLERANCE):
                    why = f"expected {expected}, got {number}"
                    if check.how == "grows_by":
                        times = " and ".join(f"{committed[name]} times {name}" for name in check.value)
                        why += f" ({before} before, and {times})"
                    raise Wrong(f"after {phase.name}: {check.says}: {why}")
        return len(self._definition.checks)

    def caveats(self) -> Iterable[Caveat]:
        if self._rights.may:
            yield may_write(self._rights)
        if not self._definition.isolation:
            yield Caveat("isolation", "runs at its own default isolation of transactions")
        if self._definition.own_texts(self._job.spec.name):
            yield Caveat("other-text", "runs a text of its own in place of the others'")


class NativeSql:
    """A port whose connection native load takes."""

    def __init__(self, port: Any) -> None:
        self.port, self.exchange = port, port.exchange


def _number(port: Sql, query: str) -> Any:
    rows = port.statement((query,))(())
    if not isinstance(rows, list) or len(rows) != 1 or len(rows[0]) != 1:
        raise Wrong(f"the check {query!r} must return one number, got {shorten(rows)}")
    number = canonical(rows[0][0], TOLERANCE)
    if type(number) not in (int, float):
        raise Wrong(f"the check {query!r} must return one number, got {shorten(rows)}")
    return number


class Recording:
    """Judges and records the answers that one client gets in one phase."""

    def __init__(self, workload: SqlWorkload, phase: Phase, kinds: Kinds, client: int) -> None:
        self._kinds = kinds
        self._phase = phase
        self._client = client
        self._home = workload.answers_home(phase)
        self._record = AnswerRecord(self._home, client)
        self._judged = not workload._job.spec.floor
        self._comparable = workload.comparable(phase)
        self._counts: Counter[str] = Counter()
        self._commits: Counter[str] = Counter()
        self._known: Counter[int] = Counter()

    def check(
        self, number: int, positions: list[int], inputs: list[tuple[object, ...]], answers: Sequence[object]
    ) -> int:
        """Judges the first answers of a batch. Returns the number of compared answers. Raises Wrong."""
        if not self._judged:
            return 0
        warm = number >= WARM * ROUND
        for at, answer in enumerate(answers):
            each = self._kinds.transactions[positions[at]]
            if type(answer) is Failure:
                self._counts["aborts"] += answer.error.startswith(Aborted.__name__)
                continue
            self._commits[each.name] += 1
            if each.affects:
                self._check_affected(each, positions[at], number * BATCH + at, answer)
        of_batch = self._digests(positions, answers)
        self._counts["warm"] |= warm
        if self._comparable and not warm:
            self._record.add(number * BATCH, of_batch, lambda at: self._format_answer(positions[at], answers[at]))
        if not self._phase.writes and not warm:
            self._count(of_batch, answers)
        self._home.mkdir(parents=True, exist_ok=True)
        (self._home / f"{self._client}.counts").write_text(json.dumps(self._counts))
        (self._home / f"{self._client}.commits").write_text(json.dumps(self._commits))
        return len(answers)

    def _digests(self, positions: Sequence[int], answers: Sequence[object]) -> list[Digest]:
        """Returns the digests of a batch's answers."""
        # Answers with the same columns are digested together.
        groups: dict[tuple[int, tuple[int, ...] | None], dict[int, object]] = {}
        for at, answer in enumerate(answers):
            each = self._kinds.transactions[positions[at]]
            if type(answer) is Failure or each.compare == NONE:
                continue
            rows, columns = (answer, ()) if each.compare == COUNT else _columns(each, answer)
            groups.setdefault((positions[at], columns), {})[at] = rows
        found = [FAILED] * len(answers)
        for (position, columns), group in groups.items():
            each = self._kinds.transactions[position]
            ordered = each.ordered and each.compare != COUNT
            of_group = digests(list(group.values()), ordered, each.tolerance, columns)
            for at, one in zip(group, of_group, strict=True):
                found[at] = one
        return found

    def _format_answer(self, position: int, answer: object) -> object:
        each = self._kinds.transactions[position]
        if type(answer) is Failure or each.compare in (NONE, COUNT):
            return None
        rows, columns = _columns(each, answer)
        return format_rows(rows, each.tolerance, columns)

    def _count(self, digests: Sequence[Digest], answers: Sequence[object]) -> None:
        self._counts["judged"] += len(answers)
        results = (one if type(one) is tuple else (one,) for one in answers)
        self._counts["empty"] += sum(all(type(rows) is list and not rows for rows in each) for each in results)
        if not any(script.inputs for script in self._kinds.scripts):
            return
        if len(self._known) < WHOLE_KINDS:
            self._known.update(one.grids[0] for one in digests)
        self._counts["same"] = max(self._known.values(), default=0)

    def _check_affected(self, each: Transaction, position: int, number: int, answer: Any) -> None:
        answered = [step for step in self._kinds.scripts[position].statements if step.keyword not in CONTROL]
        results = answer if type(answer) is tuple else (answer,)
        changed = [
            result if type(result) is int else len(result)
            for step, result in zip(answered, results, strict=True)
            if step.writes
        ]
        if tuple(changed) != each.affects:
            expected = list(each.affects)
            raise Wrong(f"{each.name}, operation {number + 1:,}: changed {changed} rows, expected {expected}")


WHOLE_KINDS = 100_000
"""Number of different answers that are counted."""


def _columns(each: Transaction, answer: Any) -> tuple[Any, tuple[int, ...] | None]:
    """Returns the rows of an answer and the positions of the columns that are compared. Raises Wrong."""
    if not isinstance(each.compare, tuple):
        return answer, None
    names, rows = answer
    if lacking := [name for name in each.compare if name not in names]:
        raise Wrong(f"{each.name}: compare names {', '.join(lacking)}, but the columns are {', '.join(names)}")
    return rows, tuple(list(names).index(name) for name in each.compare)


WORKLOAD = SqlWorkload
