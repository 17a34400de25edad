"""The power is cut: what an engine does to its files is recorded once, the states in which they may be after a cut
are drawn by a model of what a file system may lose, and each is opened and judged.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path

from msgspec.structs import replace

from dyno.crash.judgement import HANG, REFUSED, Judgement
from dyno.crash.kills import Failed
from dyno.crash.model import State, draws, shrink
from dyno.crash.processes import StoreChecker, job, numbers, words
from dyno.crash.record import Record
from dyno.crash.recorder import record
from dyno.crash.store import Target
from dyno.crash.time_budget import Allowed
from dyno.servers import leftover_processes

COMMITS = 100
RECOVERIES = 10
"""States of which the recovery is recorded and cut, at most; as many states of each are judged."""
RECORD_SECONDS = 600.0
WHEN_RUNNING, WHEN_RECOVERING, WHEN_BORN, WHEN_MOUNTED = "cut", "recovery", "birth", "device"
RUNNING, RECOVERING = 0.6, 0.6
"""The share of the time for cuts that those have while it commits; and of the rest, those while it recovers."""
FOR_EVER = Allowed()
WAYS = (WHEN_RUNNING, WHEN_RECOVERING, WHEN_BORN, WHEN_MOUNTED)


class Unreadable(Exception):
    """The file system itself can't be read in a state: why."""


@dataclass(frozen=True)
class Cut:
    """One state, and what it was found to be."""

    when: str
    """'cut' while it commits; 'recovery': a second time, while it recovers from the first; 'birth': where nothing is
    taken as durable that was done before the first commit; 'device': on a disk with a real file system."""
    judgement: Judgement
    acknowledged: int
    begun: int
    kind: str
    state: State
    record: Record


@dataclass(frozen=True)
class Recorded:
    """A workload, recorded."""

    record: Record
    seldom: int
    """How often the engine did what it does seldom."""
    told: Sequence[str]
    """The lines of the process that did it."""


class Bench:
    """Where one store is recorded, in `place`, and where its states are built and judged, in `fast`: what becomes of
    a state does not depend on how fast a flush is. A record must be of a disk: in memory a server may not flush at
    all."""

    def __init__(self, target: Target, place: Path, fast: Path) -> None:
        self._target, self._place = target, place
        self._recorded, self.home = place / "home", fast / "home"
        fast.mkdir(parents=True, exist_ok=True)
        self._judge = StoreChecker(target, self.home)
        self.born = target.spec.server is None
        """Whether the record has how the store was made."""

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.close()

    def workload(self) -> Recorded:
        """Records so many commits, from a store that has just been made; a server's is there before, as making that
        takes a program of its own. Raises Failed."""
        self._recorded.mkdir(parents=True)
        if not self.born:
            self._made()
        record_, told = self._record(COMMITS, "record")
        if len(numbers(told, "done")) != COMMITS:
            raise Failed(told[-1].removeprefix("failed ") if told else "the process that was recorded did nothing")
        return Recorded(record_, len(numbers(told, "seldom")), told)

    def _made(self) -> None:
        """The store is made, and closed as it should be, with nobody looking."""
        self._committed(0, stop=True)

    def _committed(self, commits: int, stop: bool = False) -> list[str]:
        """What a process told that made so many commits. Raises Failed."""
        answers = self._answers()
        path = job(self._target, self._recorded, 0, commits, stop)
        try:
            done = subprocess.run(
                words(self._target, "committer", path, str(answers)),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=RECORD_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"it was not done after {RECORD_SECONDS:g} s") from None
        finally:
            leftover_processes.clear(self._recorded)
        told = answers.read_text(errors="replace").splitlines()
        if done.returncode:
            said = told or done.stderr.strip().splitlines()
            raise Failed(said[-1].removeprefix("failed ") if said else f"exit status {done.returncode}")
        return told

    def _record(self, commits: int, name: str) -> tuple[Record, list[str]]:
        answers, out = self._answers(), self._place / name
        shutil.rmtree(out, ignore_errors=True)
        command = words(self._target, "committer", job(self._target, self._recorded, 0, commits), str(answers))
        try:
            made = record(command, [self._recorded], out, timeout_seconds=RECORD_SECONDS)
        except (RuntimeError, TimeoutError) as error:
            raise Failed(f"it can't be recorded: {error}") from None
        finally:
            leftover_processes.clear(self._recorded)
        return made, answers.read_text(errors="replace").splitlines()

    def _answers(self) -> Path:
        answers = self._place / "answers"
        answers.write_bytes(b"")
        return answers

    def build(self, state: State) -> None:
        """Makes `home` hold it. Raises Unreadable."""
        state.build(self.home)

    def words(self, state: State) -> list[str]:
        """What was lost in it."""
        return state.words()

    def judged(self, state: State, more: bool = True) -> Judgement:
        try:
            self.build(state)
        except Unreadable as error:
            return Judgement(REFUSED, str(error))
        return self._judge.look(state.acknowledged, state.begun, more)

    def recovery(self, state: State) -> Record | None:
        """The record of one from that state, which it survives; None where it did not get to its end."""
        state.build(self._recorded)
        made, told = self._record(0, "recovery")
        if "ended" not in told:
            return None
        return replaced(made, header=replace(made.header, acknowledged=state.acknowledged, begun=state.begun))


def cuts(
    bench: Bench, made: Recorded, model: str, count: int, seed: int, allowed: Allowed = FOR_EVER
) -> Iterator[Cut]:
    """Cuts at `count` states while it commits, and then at some while it recovers from some of these, and at some
    while it is born; at fewer, and at one of each at least, where that is all that the time allows. Raises Failed."""
    sound: list[State] = []
    for cut in judgements(
        bench, made.record, WHEN_RUNNING, draws(made.record, model, seed, count), allowed.part(RUNNING)
    ):
        if cut.judgement.sound:
            sound.append(cut.state)
        yield cut
    few = max(1, count // 20)
    some = min(RECOVERIES, few)
    recovering = allowed.part(RECOVERING)
    for number, state in enumerate(sound[:: max(1, len(sound) // some)][:some]):
        if number and recovering.over:
            break
        if (again := bench.recovery(state)) is not None:
            states = draws(again, model, seed + number, few, birth=True)
            yield from judgements(bench, again, WHEN_RECOVERING, states, recovering)
    if bench.born:
        yield from judgements(
            bench, made.record, WHEN_BORN, draws(made.record, model, seed, max(1, count // 4), birth=True), allowed
        )


def judgements(
    bench: Bench, record_: Record, when: str, states: Iterator[State], allowed: Allowed = FOR_EVER
) -> Iterator[Cut]:
    """Of each state, what it was found to be: of the first, and of others while that is allowed."""
    for number, state in enumerate(states):
        if number and allowed.over:
            return
        yield Cut(when, bench.judged(state), state.acknowledged, state.begun, state.kind, state, record_)


def smallest(bench: Bench, cut: Cut) -> Cut:
    """A cut of the same outcome in which as little as could be found was lost. One that hangs is left as it is: each
    that was tried would take minutes."""
    if cut.judgement.outcome == HANG:
        return cut

    def same(state: State) -> bool:
        return bench.judged(state).outcome == cut.judgement.outcome

    state = shrink(cut.record, cut.state, same)
    judgement = bench.judged(state)
    if judgement.outcome != cut.judgement.outcome:
        # An engine that does not do the same twice.
        return cut
    return replaced(cut, state=state, judgement=judgement, acknowledged=state.acknowledged, begun=state.begun)
