"""Native load: the clients of one process, each a connection, driven together by the loop in rust/wire.

The suites build the same slices for each client as for the library's loop, but the calls are those of
`dyno.contracts.native_load`. Requests are encoded when inputs are built, and responses are decoded when answers are
checked, so neither is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dyno.contracts.model import Wrong
from dyno.contracts.native_load import NativeCall, Request
from dyno.contracts.pace import NATIVE_LOAD, Pace
from dyno.contracts.suite import Failure, Operations, Work
from dyno.measure.arrivals import Arrivals
from dyno.measure.batches import FOREVER_NS, BatchTime, RunBatch
from dyno.measure.client_states import ClientStates, State
from dyno.measure.driver import Client
from dyno.measure.loop import Stamps, Times
from dyno.measure.memory_limit import HELD_BYTES
from dyno.measure.pipelined import PipelinedBatch
from dyno.measure.pipelined_loop import BatchResult
from dyno.measure.slices import HeldTransaction, InputQueue, Rounds, Slice
from dyno.measure.tally import Tally, check_answers, select_succeeded
from dyno.measure.warm_up import WarmUpRound

if TYPE_CHECKING:
    from dyno._native import Wire


class NativeSlice(Slice):
    """A slice with encoded requests.

    Its held transaction, which is for reads, is entered here, so before the slice is measured. An earlier slice that
    waits with this one may then run in the transaction too.
    """

    def __init__(self, held: HeldTransaction, work: Operations, due: Times | None = None) -> None:
        super().__init__(work, due)
        if work.around is not nullcontext:
            raise TypeError("native load has no transactions around slices")
        calls: Any = work.calls(held.enter(work.held))
        self._calls: Sequence[NativeCall] = calls
        steps = zip(cycle(self._calls), self.arguments, strict=False)
        self.requests: list[Request] = [call.request(argument) for call, argument in steps]

    def take(self, responses: Sequence[object]) -> None:
        """Decodes the next responses of the slice, and appends the answers."""
        done, count = self.done, len(self._calls)

        def convert_response(at: int, response: Any) -> object:
            call = self._calls[at % count]
            convert = call.failed if type(response) is Failure else call.answer
            return convert(self.arguments[at], response)

        self.answers = self.answers + [convert_response(at, response) for at, response in enumerate(responses, done)]


class Lane:
    """One client with its connection, and the slices that wait for it."""

    def __init__(self, rounds: Rounds, endless: bool, ordered: bool, arrivals: Arrivals | None = None) -> None:
        self._held = HeldTransaction()
        self.done = 0
        """Operations in all batches."""
        self.queue = InputQueue(rounds, endless, ordered, arrivals, partial(NativeSlice, self._held))

    def close(self) -> None:
        """Leaves the transaction that the slices hold open. A lost connection has none."""
        with suppress(Exception):
            self._held.leave()
        self.queue.close()

    @property
    def slices(self) -> list[NativeSlice]:
        return [one for one in self.queue.waiting if isinstance(one, NativeSlice)]

    def due_times(self, origin: int) -> Times:
        """Returns when the remaining operations are due, in ns; empty for a closed loop."""
        dues = [one.due[one.done :] for one in self.slices if one.due is not None]
        if dues:
            return np.concatenate(dues) + origin
        return np.empty(0, np.int64)


class Sent(NamedTuple):
    """A batch that was run, with the responses that each lane's connection received. Moments are on the clock of
    `wire`."""

    lanes: Sequence[Lane]
    received: Sequence[Any]
    times: Sequence[Sequence[Times]]
    """For each lane: when its operations began, when they ended, and when the lane had been free before."""
    dues: Sequence[Times] | None
    start: int
    over: int

    @property
    def operations(self) -> int:
        return sum(map(len, self.received))

    @property
    def idle(self) -> int:
        """When the first lane had nothing left to do."""
        return min((int(ends[-1]) if len(ends) else self.start for _, ends, _ in self.times), default=self.start)

    @property
    def overdue(self) -> bool:
        """Whether an operation that could have begun did not."""
        if self.dues is None:
            return True
        lanes = zip(self.dues, self.received, strict=True)
        return any(len(result) < len(due) and due[len(result)] <= self.over for due, result in lanes)

    def decoded(self) -> PipelinedBatch:
        """Adds the decoded answers to each slice. Raises Wrong for a response that can't be read."""
        answers, counts = list[Any](), list[tuple[Slice, int]]()
        for lane, result in zip(self.lanes, self.received, strict=True):
            responses, at = [_first_failure(each) for each in result.decode(Failure)], 0
            for slice_ in lane.slices:
                count, done = min(slice_.left, len(responses) - at), slice_.done
                try:
                    slice_.take(responses[at : at + count])
                except Exception as error:
                    raise Wrong(f"a response that can't be read: {type(error).__name__}: {error}") from error
                answers += slice_.answers[done:]
                at += count
                counts.append((slice_, count))
        starts, ends, freed = (np.concatenate(parts) for parts in zip(*self.times, strict=True))
        due = None
        if self.dues is not None:
            due = np.concatenate([due[: len(one)] for due, one in zip(self.dues, self.received, strict=True)])
        if len(self.lanes) == 1:
            busy = int((ends - starts).sum())
        else:
            busy = self.over - self.start
        failures = [answer for answer in answers if type(answer) is Failure]
        result = BatchResult(answers, Stamps(starts, ends), freed, busy)
        return PipelinedBatch(counts, result, due, failures, self.start, self.idle, self.over)


class NativeClients(Client):
    """Runs the shares of several clients over the connections of `wire`. `each` has the rounds of each client, by the
    client's number among all `clients`. `states`: of all clients on this machine."""

    def __init__(
        self,
        wire: Wire,
        each: Mapping[int, Rounds],
        clients: int,
        states: ClientStates,
        rounds: Rounds,
        pace: Pace,
        *others: Any,
    ) -> None:
        super().__init__(rounds, pace, *others)
        self._wire, self._states = wire, states
        self._all_rounds = list(each.values())
        endless = pace.duration_ns is not None
        self._lanes = list[Lane]()
        for client, own in each.items():
            rate = pace.rate
            arrivals = None
            if rate is not None:
                arrivals = Arrivals(rate, pace.arrivals, client, clients, pace.seed)
            self._lanes.append(Lane(own, endless, self._writes, arrivals))

    def measure(self, ready: Callable[[], object], hot: bool, warmed: Callable[[], object]) -> Tally:
        tally = super().measure(ready, hot, warmed)
        tally.load = NATIVE_LOAD
        tally.by_client = [lane.done for lane in self._lanes if lane.done or not lane.queue.over]
        return tally

    def _load(self) -> None:
        wanted = max(-(-self._scheduler.operations() // len(self._lanes)), 1)
        memory = self._inputs.memory_limit()

        def has_enough(lane: Lane) -> bool:
            operations = lane.queue.operations
            return operations >= wanted or (operations > 0 and memory.full(self._loop.now()))

        on_schedule = self._on_schedule and not self._lags
        for lane in self._lanes:
            if on_schedule:
                self._inputs.load_due(lane.queue, len(self._lanes))
            else:
                lane.queue.load(partial(has_enough, lane))
        self._give(self._lanes)

    def _give(self, lanes: Sequence[Lane]) -> None:
        """Passes the encoded requests to the loop."""
        self._wire.load([[each for one in lane.slices for each in one.requests[one.done :]] for lane in lanes])

    def _warm_round(self, number: int, limit_ns: int) -> WarmUpRound:
        def one_round(rounds: Rounds, round: int) -> Iterator[Work]:
            if round == 0:
                return rounds(number)
            return iter(())

        lanes = [Lane(partial(one_round, each), False, False) for each in self._all_rounds]
        spent = 0
        operations = 0
        try:
            while spent < limit_ns:
                for lane in lanes:
                    lane.queue.load(lambda lane=lane: lane.queue.operations > 0)  # type: ignore[misc]
                if not any(lane.slices for lane in lanes):
                    return WarmUpRound(spent, True, operations)
                self._give(lanes)
                sent = self._run(lanes, self._wire.now(), limit_ns - spent)
                spent += sent.over - sent.start
                batch = sent.decoded()
                operations += sent.operations
                select_succeeded(batch.result.answers, len(batch.failures))
                # A slice that the time cut is checked too: the check learns what was written.
                slices = [slice_ for lane in lanes for slice_ in lane.slices]
                for slice_ in slices:
                    if slice_.done:
                        check_answers(slice_.work.check, slice_.answers)
                if any(slice_.left for slice_ in slices):
                    return WarmUpRound(spent, False, operations)
                for lane in lanes:
                    lane.queue.waiting.clear()
            return WarmUpRound(spent, False, operations)
        finally:
            for lane in lanes:
                lane.close()

    def _run(self, lanes: Sequence[Lane], start: int, length_ns: int, elapsed_ns: int | None = None) -> Sent:
        dues = None
        if elapsed_ns is not None:
            dues = [lane.due_times(start - elapsed_ns) for lane in lanes]
        moments = None
        if dues is not None:
            moments = [due.tolist() for due in dues]
        most = HELD_BYTES // self._position.clients
        received = self._wire.run(moments, start, start + min(length_ns, FOREVER_NS), most, self._report_slow)
        over = self._wire.now()
        times = [[np.frombuffer(column, dtype=np.int64) for column in result.times()] for result in received]
        return Sent(lanes, received, times, dues, start, over)

    def _report_slow(self, begun: Sequence[int]) -> None:
        """Receives when the operation of each connection began, 0 without one, while one of them is slow."""
        for number, begun_ns in enumerate(begun):
            state = State.ANSWER if begun_ns else State.OTHERS
            client = self._position.client + number * self._position.clients
            self._states.enter(client, state, begun_ns)

    def _run_batch(self, start: int) -> RunBatch:
        left = min(self._limits.left_ns, FOREVER_NS)
        length = min(left, self._batch_ns())
        shift = self._loop.now() - self._wire.now()
        sent = self._run(self._lanes, start - shift, length, self._tally.elapsed_ns if self._open else None)
        waiting = sum(lane.queue.operations for lane in self._lanes)
        for lane, result in zip(self._lanes, sent.received, strict=True):
            lane.done += len(result)
        if sent.operations < waiting:
            if sent.over - sent.start < length and sent.overdue:
                # The memory for responses is full.
                self._most = max(sent.operations, 1)
            elif length == left:
                self._end_by_time()

        def record(time: BatchTime) -> None:
            self._record_pipelined(sent.decoded(), time)

        return RunBatch(sent.idle + shift, sent.over + shift, sent.operations, record)

    def _queues(self) -> Sequence[InputQueue]:
        return [lane.queue for lane in self._lanes]

    def _close(self) -> None:
        for lane in self._lanes:
            lane.close()


def _first_failure(response: object) -> object:
    """Returns the response, or the first failure in its (perhaps nested) list of responses."""
    if type(response) is list:
        for each in response:
            if type(each) is list:
                failure = _first_failure(each)
            else:
                failure = each
            if type(failure) is Failure:
                return failure
    return response
