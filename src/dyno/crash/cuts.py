"""Power cuts: Dyno records an engine's changes to its files once, draws states after a cut from a model of the file
system, and opens and judges each state."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dyno.crash import recorder
from dyno.crash.model import State, draws, explain, shrink
from dyno.crash.processes import COMMIT, CrashProcess, StoreChecker, WorkloadFailed, numbers, words, write_job
from dyno.crash.record import CrashRecord
from dyno.crash.store import HANG, REFUSED, CrashTarget, Judgement
from dyno.servers import leftover_processes

COMMITS = 100
MOST_RECOVERIES = 10
RECORD_SECONDS = 600.0
WHEN_RUNNING = "cut"
WHEN_RECOVERING = "recovery"
WHEN_BORN = "birth"
WHEN_MOUNTED = "device"
WAYS = (WHEN_RUNNING, WHEN_RECOVERING, WHEN_BORN, WHEN_MOUNTED)
RUNNING_SHARE, RECOVERING_SHARE = 0.6, 0.6
"""Share of a row's time for cuts while the engine commits; share of the rest for cuts while it recovers."""


def part_of(deadline: float, share: float) -> float:
    """Returns a deadline after `share` of the time that remains until `deadline`, by the monotonic clock. Work that
    was started before a deadline is finished."""
    now = time.monotonic()
    return now + max(0.0, deadline - now) * share


class Unreadable(Exception):
    """The file system of a state can't be mounted or read. The message says why."""


@dataclass(frozen=True)
class Cut:
    """A state after a cut, and its judgement."""

    when: str
    """'cut': while the engine commits. 'recovery': while it recovers from such a cut. 'birth': with nothing durable
    before the first commit. 'device': on a disk with a real file system."""
    judgement: Judgement
    state: State


class Bench:
    """Records a store in the directory `place`, and builds and judges its states in the directory `fast`.

    The record needs a disk, since a server may not flush at all in memory. States may be in memory: the judgement
    doesn't depend on the speed of flushes.
    """

    def __init__(self, target: CrashTarget, place: Path, fast: Path) -> None:
        self._target, self._place = target, place
        self._recorded, self.home = place / "home", fast / "home"
        fast.mkdir(parents=True, exist_ok=True)
        self._checker = StoreChecker(target, self.home)
        self.born = target.spec.server is None
        """Whether the record includes the creation of the store."""

    def close(self) -> None:
        self._checker.close()

    def workload(self) -> tuple[CrashRecord, list[str]]:
        """Records COMMITS commits on a new store. Returns the record, and the lines of the committing process.

        A server's store is created before the recording, by a program of its own. Raises WorkloadFailed.
        """
        self._recorded.mkdir(parents=True)
        if not self.born:
            self._commit(0, stop=True)
        recording, lines = self._record(COMMITS, "record")
        if len(numbers(lines, "done")) != COMMITS:
            raise WorkloadFailed(lines[-1].removeprefix("failed ") if lines else "the recorded process did nothing")
        return recording, lines

    def _commit(self, commits: int, stop: bool = False) -> list[str]:
        """Creates the store if it is new, and commits without recording. Returns the lines of the process.

        `stop`: shut a server down in order. Raises WorkloadFailed.
        """
        job = write_job(self._target, self._recorded, 0, commits, stop)
        with closing(CrashProcess(self._target, COMMIT, self._recorded, job)) as child:
            lines = list[str]()
            try:
                while (line := child.line(RECORD_SECONDS)) is not None:
                    lines.append(line)
            except TimeoutError:
                raise WorkloadFailed(f"it did nothing for {RECORD_SECONDS:g} s") from None
            if lines[-1:] != ["ended"]:
                failed = bool(lines) and lines[-1].startswith("failed ")
                raise WorkloadFailed(lines[-1].removeprefix("failed ") if failed else child.wait_for_end())
        return lines

    def _record(self, commits: int, name: str) -> tuple[CrashRecord, list[str]]:
        answers, out = self._place / "answers", self._place / name
        answers.write_bytes(b"")
        shutil.rmtree(out, ignore_errors=True)
        job = write_job(self._target, self._recorded, 0, commits)
        try:
            recording = recorder.record_command(
                words(self._target, COMMIT, job, str(answers)),
                self._recorded,
                out,
                timeout_seconds=RECORD_SECONDS,
            )
        except (RuntimeError, TimeoutError) as error:
            raise WorkloadFailed(f"it can't be recorded: {error}") from None
        finally:
            leftover_processes.clear(self._recorded)
        return recording, answers.read_text(errors="replace").splitlines()

    def build(self, state: State) -> None:
        """Replaces the contents of `home` by the state. Raises Unreadable."""
        state.build(self.home)

    def words(self, state: State) -> list[str]:
        """Describes the changes that the state lost."""
        return explain(state)

    def judge_state(self, state: State) -> Judgement:
        try:
            self.build(state)
        except Unreadable as error:
            return Judgement(REFUSED, str(error))
        return self._checker.look(state.acknowledged, state.begun)

    def recovery(self, state: State) -> CrashRecord | None:
        """Records the recovery from a state. Returns None if the recovery did not finish."""
        state.build(self._recorded)
        recording, lines = self._record(0, "recovery")
        if "ended" not in lines:
            return None
        return dataclasses.replace(recording, acknowledged=state.acknowledged, begun=state.begun)


def cuts(bench: Bench, record: CrashRecord, model: str, count: int, seed: int, deadline: float) -> Iterator[Cut]:
    """Yields cuts at `count` states while the engine commits, then at some while it recovers from these states, then
    at some while the store is created.

    If the time is short, there are fewer, but at least one of each kind. Raises WorkloadFailed.
    """
    sound: list[State] = []
    states = draws(record, model, seed, count)
    for cut in judgements(bench, WHEN_RUNNING, states, part_of(deadline, RUNNING_SHARE)):
        if cut.judgement.sound:
            sound.append(cut.state)
        yield cut
    per_recovery = max(1, count // 20)
    recoveries = min(MOST_RECOVERIES, per_recovery)
    recovering = part_of(deadline, RECOVERING_SHARE)
    for number, state in enumerate(sound[:: max(1, len(sound) // recoveries)][:recoveries]):
        if number and time.monotonic() >= recovering:
            break
        if (recording := bench.recovery(state)) is not None:
            states = draws(recording, model, seed + number, per_recovery, birth=True)
            yield from judgements(bench, WHEN_RECOVERING, states, recovering)
    if bench.born:
        states = draws(record, model, seed, max(1, count // 4), birth=True)
        yield from judgements(bench, WHEN_BORN, states, deadline)


def judgements(bench: Bench, when: str, states: Iterator[State], deadline: float) -> Iterator[Cut]:
    """Yields the judgement of the first state, and of others while there is time."""
    for number, state in enumerate(states):
        if number and time.monotonic() >= deadline:
            return
        yield Cut(when, bench.judge_state(state), state)


def smallest(bench: Bench, cut: Cut) -> Cut:
    """Returns a cut with the same outcome that loses as little as possible.

    Returns the cut itself after a hang, since each try would take minutes, and if the failure doesn't repeat.
    """
    if cut.judgement.outcome == HANG:
        return cut

    def has_same_outcome(state: State) -> bool:
        return bench.judge_state(state).outcome == cut.judgement.outcome

    state = shrink(cut.state, has_same_outcome)
    judgement = bench.judge_state(state)
    if judgement.outcome == cut.judgement.outcome:
        return Cut(cut.when, judgement, state)
    return cut
