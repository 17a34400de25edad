"""Tests that the native loop has the same answers, failures and ends as the simpler one in Python, for any callables,
arguments, deadlines and moments. Other tests cover errors that only native code can have: of references, memory, its
clock, other threads and interrupts. The last ones check that Dyno works without the native loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pytest
from clockwork import the_loop
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dyno.contracts.histogram
from dyno.contracts.histogram import HIGHEST, LOWEST, Recorder
from dyno.measure import loop as python
from dyno.measure.loop import pick, resolve_stamps

SECOND = 10**9
LONG = 60.0
"""Timeout in seconds, which is reached only if something is broken."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1


@pytest.fixture(scope="module")
def native() -> Any:
    """The native loop with a calibrated clock."""
    loop = the_loop("native")
    loop.calibrate()
    return loop


# -- the same as the loop in Python ------------------------------------------------------------------------


class Fatal(BaseException):
    """Ends the loop: only subclasses of Exception are errors of operations."""


class Unruly:
    """An answer, argument and callable whose methods all raise."""

    def __call__(self, argument: Any) -> Any:
        return self

    def __bool__(self) -> bool:
        raise AssertionError("asked whether it is true")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked what it equals")

    __hash__ = None  # type: ignore[assignment]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


def raising(error: BaseException | type[BaseException]) -> Callable[[Any], Any]:
    def call(argument: Any) -> Any:
        raise error

    return call


def keywords(argument: Any, *rest: Any, **named: Any) -> Any:
    return argument, rest, named


UNRULY = Unruly()
CALLABLES: list[Any] = [
    type,
    len,
    abs,
    next,
    bool,
    keywords,
    {1: "one", "a": [2]}.get,
    (5).__add__,
    [].append,
    partial(keywords, 1, two=2),
    lambda argument: None,
    lambda argument: argument,
    lambda argument: NotImplemented,
    lambda argument: ValueError("returned"),
    lambda argument: float("nan"),
    lambda: "no argument",
    lambda argument, another: "one too few",
    raising(ValueError("of its own")),
    raising(KeyError),
    raising(StopIteration(3)),
    raising(Unprintable()),
    raising(RecursionError("deep")),
    UNRULY,
    7,
    None,
]
FATAL = [raising(fatal) for fatal in (MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit, Fatal)]
ARGUMENTS: list[Any] = [None, True, 0, -7, 10**30, 2.5, "", "text", b"bytes", (), [1], {}, UNRULY, object()]
# An endless iterator and an exhausted one: the first loop doesn't change them for the second.
ARGUMENTS += [repeat("again"), iter(())]

callables = st.lists(st.sampled_from(CALLABLES), min_size=1, max_size=5)
with_fatal = st.lists(st.sampled_from([*CALLABLES, *FATAL]), min_size=1, max_size=5)
arguments = st.lists(st.sampled_from(ARGUMENTS), max_size=12)
# Deadlines in ns from now: long past (None stands for the least number), just past, now, or after this test.
deadlines = st.sampled_from([None, -5_000_000, 0, 3_000 * SECOND])
moments = st.sampled_from([-5_000_000, -1, 0, 1, 2_500, 20_000, 250_000, 4_000 * SECOND])


class Seen(NamedTuple):
    """Result of a slice. Times are in ns since the call."""

    answers: list[Any]
    failures: list[Any]
    raised: type[BaseException] | None
    starts: list[int]
    ends: list[int]


def through(
    loop: Any, calls: Sequence[Any], arguments: Sequence[Any], deadline: int | None, due: Sequence[int] | None
) -> Seen:
    """Runs a slice through a loop. `deadline` and `due` are in ns from now, like `deadlines` and `moments`."""
    failures: list[Any] = []

    def failed(error: Exception) -> Any:
        # Record no text, since not every error can be printed.
        failures.append(("failed", type(error), error.args))
        return failures[-1]

    begin = loop.now()
    until = LEAST if deadline is None else begin + deadline
    try:
        if due is None:
            answers, stamps = loop.closed(tuple(calls), tuple(arguments), until, failed)
        else:
            absolute = np.array(due, dtype=np.int64) + begin
            answers, stamps = loop.paced(tuple(calls), tuple(arguments), absolute, until, failed)
    except BaseException as error:
        return Seen([], failures, type(error), [], [])
    starts, ends = resolve_stamps(stamps)
    return Seen(
        [comparable(answer) for answer in answers], failures, None, (starts - begin).tolist(), (ends - begin).tolist()
    )


def comparable(answer: Any) -> tuple[type, Any]:
    if isinstance(answer, Exception):
        return type(answer), answer.args
    # Floats are compared as text, since NaN does not equal itself.
    return type(answer), str(answer) if isinstance(answer, float) else answer


def same(native: Any, *slice: Any) -> Seen:
    """Runs a slice through both loops, which must agree except for the moments. Returns the native result."""
    seen, plain = (through(loop, *slice) for loop in (native, python))
    assert seen[:3] == plain[:3]
    assert len(seen.starts) == len(seen.ends) == len(plain.starts) == len(seen.answers)
    every = np.column_stack([seen.starts, seen.ends]).ravel()
    assert (np.diff(every) >= 0).all(), "one began before the one before had ended"
    return seen


@pytest.mark.claim("The native loop and the Python loop give the same results")
@settings(deadline=None)
@given(callables, arguments, deadlines)
def test_native_and_python_closed_loops_agree(native: Any, calls: Any, arguments: Any, deadline: int | None) -> None:
    seen = same(native, calls, arguments, deadline, None)
    in_time = deadline is not None and deadline > 0
    assert len(seen.answers) == (len(arguments) if in_time else min(len(arguments), 1))


@pytest.mark.claim("The native loop and the Python loop give the same results")
@settings(deadline=None)
@given(callables, st.lists(st.tuples(st.sampled_from(ARGUMENTS), moments), max_size=8), deadlines)
def test_native_and_python_open_loops_agree(native: Any, calls: Any, asked: Any, deadline: int | None) -> None:
    due = [moment for _, moment in asked]
    seen = same(native, calls, [argument for argument, _ in asked], deadline, due)
    assert all(start >= moment for start, moment in zip(seen.starts, due, strict=False))
    assert all(moment <= (LEAST if deadline is None else deadline) for moment in due[: len(seen.starts)])


@settings(deadline=None)
@given(with_fatal, arguments, st.booleans())
def test_native_and_python_loops_propagate_same_exceptions(
    native: Any, calls: Any, arguments: Any, open: bool
) -> None:
    same(native, calls, arguments, 3_000 * SECOND, [0] * len(arguments) if open else None)


@settings(deadline=None)
@given(st.lists(st.integers(-1_000_000, 300_000), max_size=40))
def test_unordered_due_times_are_respected(native: Any, due: list[int]) -> None:
    seen = same(native, [str], range(len(due)), 3_000 * SECOND, due)
    assert len(seen.starts) == len(due)
    assert all(start >= moment for start, moment in zip(seen.starts, due, strict=True))


@settings(deadline=None)
@given(st.sampled_from(["python", "native"]), moments.filter(lambda moment: moment < SECOND), st.booleans())
def test_closed_loop_begins_no_operation_before_its_start(native: Any, loop: str, after_ns: int, past: bool) -> None:
    which: Any = native if loop == "native" else python
    start = which.now() + after_ns
    _, stamps = which.closed((str, repr), (1, 2, 3), start - 1 if past else MOST, print, start)
    starts, _ = resolve_stamps(stamps)
    assert len(starts) == (1 if past else 3)
    assert (starts >= start).all()


@pytest.mark.parametrize("loop", [python, "native"])
@pytest.mark.parametrize("due", [None, [0, 0]])
def test_error_in_failure_callback_propagates(native: Any, loop: Any, due: Any) -> None:
    class Untellable(Exception):
        pass

    def failed(error: Exception) -> Any:
        raise Untellable from error

    loop = native if loop == "native" else loop
    with pytest.raises(Untellable):
        if due is None:
            loop.closed((len,), (1, 2), MOST, failed)
        else:
            loop.paced((len,), (1, 2), np.array(due), MOST, failed)


def test_native_loop_accepts_strided_read_only_due_times(native: Any) -> None:
    due = np.array([[0, MOST], [0, MOST], [1, MOST]], dtype=np.int64)[:, 0]
    assert not due.flags.contiguous
    due.flags.writeable = False
    assert native.paced((str,), (1, 2, 3), due, MOST - 1, raising)[0] == ["1", "2", "3"]


@pytest.mark.parametrize("due", [np.array([0.0]), np.array([0], dtype=np.int32), [0]], ids=["float", "int32", "list"])
def test_native_loop_refuses_due_times_of_other_types(native: Any, due: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        native.paced((str,), (1,), due, MOST, raising)


# -- histogram --------------------------------------------------------------------------------------------

EDGES = [
    min(max((1 << bit) * part // 16 + off, LEAST), MOST)
    for bit in range(63)
    for part in (8, 9, 15, 16)
    for off in (-1, 0, 1)
]
values = st.lists(
    st.integers(LEAST, MOST) | st.integers(-3, HIGHEST + 3) | st.integers(0, 5_000) | st.sampled_from(EDGES),
    max_size=60,
)
MAGNITUDE = dyno.contracts.histogram._LAYOUT.sub_bucket_half_count_magnitude


def by_numpy(values: Sequence[int] | np.ndarray[Any, Any]) -> list[int]:
    cut = np.asarray(values, dtype=np.int64).clip(LOWEST, HIGHEST)
    return np.bincount(dyno.contracts.histogram._buckets(cut), minlength=len(Recorder().counts)).tolist()


def test_recorder_uses_the_native_functions(native: Any) -> None:
    assert dyno.contracts.histogram._record is native.record
    assert dyno.contracts.histogram._restore is native.restore


@pytest.mark.claim("The native loop and the Python loop give the same results")
@given(values)
def test_native_and_numpy_recorder_counts_agree(native: Any, values: list[int]) -> None:
    counts = Recorder().counts
    native.record(counts, np.array(values, dtype=np.int64), MAGNITUDE, HIGHEST)
    assert counts.tolist() == by_numpy(values)


def test_native_and_numpy_recorder_counts_agree_at_edges(native: Any) -> None:
    counts = Recorder().counts
    # EDGES are where buckets get wider. `inner` is where every sub-bucket of some buckets begins.
    inner = np.array([(2_048 + step) << shift for shift in (0, 1, 7, 20) for step in range(2_048)])
    several = [np.array(EDGES), inner, inner - 1, np.array([0, -1, LEAST, MOST, HIGHEST, HIGHEST + 1])]
    for part in several:
        native.record(counts, part, MAGNITUDE, HIGHEST)
    assert counts.tolist() == by_numpy(np.concatenate(several))


# The library reads a counter of 2 ** 62 as no counter, so numbers stay below.
counters = st.integers(0, 3) | st.integers(0, (1 << 62) - 1)
numbers = st.lists(counters | st.integers(-HIGHEST, -1) | st.integers(-200, -1))


def encoded(number: int) -> bytes:
    """Encodes a number: zigzag, seven bits per byte, and all eight bits of a ninth byte."""
    rest, found = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F and len(found) < 8:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def restored(restore: Any, histograms: list[bytes]) -> tuple[int, int, bytes] | None:
    counts = Recorder().counts
    try:
        low, high = restore(counts, histograms, 40)
    except Exception:
        return None
    return low, high, counts.tobytes()


# Each histogram ends with a counter: the library ignores a few zeros that go beyond the end.
@given(st.lists(numbers.map(lambda of: bytes(40) + b"".join(map(encoded, [*of, 0]))), max_size=3))
@example([bytes(40) + encoded((1 << 62) - 767) + encoded((1 << 62) - 256)])
def test_native_restoration_of_histograms_matches_the_library(native: Any, histograms: list[bytes]) -> None:
    assert restored(native.restore, histograms) == restored(dyno.contracts.histogram.add_counters, histograms)


def test_malformed_histogram_is_refused_without_partial_counts(native: Any) -> None:
    counts = Recorder().counts
    whole, many = bytes(40) + b"".join(map(encoded, [-5, 7, 300, -2, 1])), encoded((1 << 62) - 1)
    assert native.restore(counts, [whole, b"", whole], 40) == (5, 10)
    assert counts[5:10].tolist() == [14, 600, 0, 0, 2]
    counts[:] = 0
    for last in (b"\x80", encoded(-len(counts)), encoded(-(1 << 63)), many + many + many):
        with pytest.raises(ValueError, match="it "):
            native.restore(counts, [whole, whole + last], 40)
        assert not counts.any(), "what was added is taken back"


def test_native_recorder_refuses_unsuitable_counters(native: Any) -> None:
    one = np.array([HIGHEST])
    with pytest.raises(ValueError, match="do not reach"):
        native.record(np.zeros(5, dtype=np.int64), one, MAGNITUDE, HIGHEST)
    with pytest.raises((TypeError, BufferError)):
        native.record(np.zeros(50_000), one, MAGNITUDE, HIGHEST)
    with pytest.raises(ValueError, match="contiguous"):
        native.record(np.zeros(100_000, dtype=np.int64)[::2], one, MAGNITUDE, HIGHEST)
    fixed = Recorder().counts
    fixed.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        native.record(fixed, one, MAGNITUDE, HIGHEST)


# -- references and memory ---------------------------------------------------------------------------------


class Thing:
    """An object whose references are counted."""


class Error(Exception):
    """An error that can be referred to weakly."""


class Answering:
    """A callable that returns a new object or raises a new error, and holds no reference to either."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        self.error = error
        self.made: list[weakref.ref[Any]] = []

    def __call__(self, argument: Any) -> Any:
        made: Any = Thing() if self.error is None else self.error(argument)
        self.made.append(weakref.ref(made))
        try:
            if self.error is not None:
                raise made
            return made
        finally:
            # The error refers to this frame: without `del` they would form a reference cycle.
            del made


def counts(things: Sequence[Any]) -> list[int]:
    return [sys.getrefcount(thing) for thing in things]


def run(native: Any, calls: Any, arguments: Any, deadline: int, open: bool, failed: Any) -> Any:
    if open:
        return native.paced(calls, arguments, np.zeros(len(arguments), dtype=np.int64), deadline, failed)
    return native.closed(calls, arguments, deadline, failed)


both_ways = pytest.mark.parametrize("open", [False, True], ids=["closed", "open"])
both_deadlines = pytest.mark.parametrize("cut", [False, True], ids=["in time", "cut short"])


@both_ways
@both_deadlines
def test_native_loop_releases_references_after_a_slice(native: Any, open: bool, cut: bool) -> None:
    things = [Thing() for _ in range(50)]
    calls = (Answering(), lambda argument: argument, Answering(Error), partial(getattr, Thing()), str)
    before = counts(things), counts(calls)
    deadline = 1 if cut else MOST
    answers, stamps = run(native, calls, tuple(things), deadline, open, lambda error: error.args[0])
    assert len(answers) == (1 if cut else 50)
    # There are two references: one in this function or the list, and the argument of getrefcount.
    found = sys.getrefcount(answers), sys.getrefcount(answers[0])
    assert found == (2, 2)
    del answers, stamps
    assert (counts(things), counts(calls)) == before
    assert [made() for call in calls if isinstance(call, Answering) for made in call.made if made()] == []


@both_ways
@pytest.mark.parametrize("where", ["operation", "failed"])
def test_native_loop_releases_references_after_an_exception(native: Any, open: bool, where: str) -> None:
    things = [Thing() for _ in range(20)]
    fatal = Answering(Fatal if where == "operation" else Error)
    calls = (Answering(), Answering(), fatal)

    def failed(error: Exception) -> Any:
        raise Fatal

    before = counts(things), counts(calls), sys.getrefcount(failed)
    try:
        run(native, calls, tuple(things), MOST, open, failed)
    except Fatal:
        pass
    else:
        raise AssertionError("it did not end")
    assert [len(call.made) for call in calls] == [1, 1, 1]
    assert (counts(things), counts(calls), sys.getrefcount(failed)) == before
    assert [made() for call in calls for made in call.made if made()] == []


def moments_of(stamps: Any) -> tuple[bytes, bytes]:
    starts, ends = stamps.resolve()
    return bytes(starts), bytes(ends)


def test_stamps_of_different_slices_stay_separate(native: Any) -> None:
    def slice(operations: int) -> Any:
        return native.closed((str,), tuple(range(operations)), MOST, raising)[1]

    first = slice(5)
    of_first = moments_of(first)
    second = slice(700)
    of_second = moments_of(second)
    assert [len(part) for part in of_first + of_second] == [40, 40, 5_600, 5_600]
    assert moments_of(first) == of_first
    # Deleting the first stamps frees their memory, and no other, for the next ones.
    del first
    third = slice(700)
    of_third = moments_of(third)
    assert moments_of(second) == of_second
    del second
    others: list[tuple[bytes, bytes]] = []
    thread = threading.Thread(target=lambda: others.extend(moments_of(slice(9)) for _ in range(3)))
    thread.start()
    thread.join()
    assert [len(slice(2).resolve()[0]) for _ in range(3)] == [16] * 3
    assert moments_of(third) == of_third
    assert len({*others, of_first, of_second, of_third}) == 6
    assert all(len(starts) == len(ends) == 72 for starts, ends in others)


def test_stamps_may_be_dropped_by_another_thread(native: Any) -> None:
    kept = [native.closed((str,), tuple(range(50)), MOST, raising)[1] for _ in range(3)]
    expected = [moments_of(stamps) for stamps in kept]
    seen: list[Any] = []

    def take() -> None:
        while kept:
            seen.append(moments_of(kept.pop(0)))
            native.closed((str,), tuple(range(50)), MOST, raising)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert seen == expected


# -- clock ------------------------------------------------------------------------------------------------

TOLERANCE = 1_000_000


def test_the_native_clock_agrees_with_the_monotonic_one(native: Any) -> None:
    native.calibrate()
    for _ in range(1_000):
        before = time.perf_counter_ns()
        now = native.now()
        after = time.perf_counter_ns()
        assert before - TOLERANCE <= now <= after + TOLERANCE


@pytest.mark.claim("The clock of the native loop agrees with the kernel's, and never runs backwards")
def test_the_stamps_agree_with_the_monotonic_clock(native: Any) -> None:
    native.calibrate()
    answers, stamps = native.closed((lambda _: time.perf_counter_ns(),), tuple(range(1_000)), MOST, raising)
    starts, ends = resolve_stamps(stamps)
    inside = np.array(answers)
    assert (starts - TOLERANCE <= inside).all() and (inside <= ends + TOLERANCE).all()


def test_the_native_clock_never_runs_backwards(native: Any) -> None:
    readings = np.fromiter((native.now() for _ in range(100_000)), dtype=np.int64)
    assert (np.diff(readings) >= 0).all()
    assert readings[-1] > readings[0]


@pytest.mark.claim("The clock of the native loop agrees with the kernel's, and never runs backwards")
def test_native_clock_never_runs_backwards_across_threads(native: Any) -> None:
    lock, readings = threading.Lock(), list[int]()
    begin = threading.Barrier(4)

    def read() -> None:
        begin.wait(LONG)
        for _ in range(5_000):
            with lock:
                readings.append(native.now())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(readings) == 20_000
    assert (np.diff(np.array(readings)) >= 0).all()


# -- other threads, and interrupts --------------------------------------------------------------------------

# C code that holds the interpreter's lock for some 100 µs without checking for other threads.
ADDING = range(10_000)


@both_ways
def test_native_loop_lets_other_threads_run(native: Any, open: bool) -> None:
    ticks, over = [0], threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    # Both callables are C: no Python instruction is executed between the first operation and the last.
    calls = (ticks.__getitem__, sum)
    arguments = (0, ADDING) * 1_000
    thread.start()
    try:
        answers, _ = run(native, calls, arguments, MOST, open, raising)
    finally:
        over.set()
        thread.join()
    assert answers[0] < answers[-2], "the other thread stood still"


def test_native_loop_lets_other_threads_run_while_waiting(native: Any) -> None:
    ticks, over = [0], threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        due = np.array([0, 50_000_000]) + native.now()
        answers, _ = native.paced((ticks.__getitem__,), (0, 0), due, MOST, raising)
    finally:
        over.set()
        thread.join()
    assert answers[0] < answers[1], "the other thread stood still"


INTERRUPTED = """
import os, signal, subprocess, sys, threading, time
import numpy as np
from dyno import _native as native

# A shell that started the tests in the background has had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
done = []
def in_thread():
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
def by_child():
    code = f"import os, signal, time; time.sleep(0.2); os.kill({{os.getpid()}}, signal.SIGINT)"
    subprocess.Popen([sys.executable, "-c", code])
{how}()
try:
    {what}
except KeyboardInterrupt:
    print("interrupted after", len(done))
"""
OPERATIONS = 200_000
RUNNING = f"native.closed((done.append, sum), (None, range(10_000)) * {OPERATIONS}, 2**62, print)"
WAITING = "native.paced((done.append,), (1, 2), np.array([0, 10**12]) + native.now(), 2**62, print)"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("how", ["in_thread", "by_child"])
@pytest.mark.parametrize(("what", "most"), [(RUNNING, OPERATIONS - 1), (WAITING, 1)], ids=["running", "waiting"])
def test_an_interrupt_ends_a_slice(native: Any, how: str, what: str, most: int) -> None:
    code = INTERRUPTED.format(how=how, what=what)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG)
    assert ended.stdout.startswith("interrupted after "), ended.stderr
    assert 1 <= int(ended.stdout.split()[-1]) <= most


# -- choice of the loop ------------------------------------------------------------------------------------


KERNELS = """
import time
import numpy as np
from dyno import _native as native
from dyno.measure.loop import resolve_stamps

assert native.CLOCK == "monotonic clock", native.CLOCK
before = time.perf_counter_ns()
due = np.array([before + 3_000_000, before + 5_000_000])
answers, stamps = native.paced((abs,), (-1, -2), due, before + 10**12, None)
starts, ends = resolve_stamps(stamps)
after = time.perf_counter_ns()
assert answers == [1, 2] and (starts >= due).all() and (ends >= starts).all(), (starts, ends, due)
assert before <= starts[0] and ends[-1] <= after and before <= native.now() <= time.perf_counter_ns()
"""


@pytest.mark.claim("If the cycle counter is not trusted, the kernel's clock is used")
@pytest.mark.usefixtures("processes")
def test_kernel_clock_is_used_without_trusted_counter(native: Any) -> None:
    """The test requests the kernel's clock, since a machine uses one of the two. Readings equal the kernel's to the
    ns."""
    environment = {**os.environ, "DYNO_CLOCK": "monotonic"}
    ran = subprocess.run([sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_auto_picks_native_loop_when_built(native: Any) -> None:
    assert [pick(name).NAME for name in ("auto", "native", "python")] == ["native", "native", "python"]


WITHOUT = """
import sys
sys.modules["dyno._native"] = None
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import UsageError
from dyno.measure.loop import describe_loop, pick
from dyno.contracts.pace import Pace
from dyno.measure.driver import measure
from dyno.contracts.suite import Operations

def rounds(number):
    yield Operations(lambda _: (str,), range(7), len)

try:
    pick("native")
except UsageError as error:
    print(error)
print(pick("auto").NAME, pick("python").NAME, describe_loop(pick())["name"])
tally = measure(rounds, Pace(), lambda: None)
print(tally.operations, tally.checked, tally.latency.counts.sum())
"""


@pytest.mark.claim("Without the native loop, the Python loop measures")
@pytest.mark.usefixtures("processes")
def test_python_loop_measures_without_native_module() -> None:
    ended = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=LONG)
    assert ended.stdout.splitlines() == [
        "loop native is not built here; install a Rust toolchain (cargo) and install Dyno again",
        "python python python",
        "7 7 7",
    ], ended.stderr
