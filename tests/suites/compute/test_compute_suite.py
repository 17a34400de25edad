"""Tests the suite `compute`: inputs are the same for every engine, answers are compared in extended precision, a sum
in the wrong type is outside the tolerance, and the sizes are the published ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pytest

from dyno import registry
from dyno.contracts.model import Phase, Wrong
from dyno.contracts.suite import Failure, Job
from dyno.engines.null.engines import Null
from dyno.suites import compute as params
from dyno.suites.compute.port import INPUTS, OPERATIONS
from dyno.suites.compute.workload import ComputeWorkload, Reference, generate, numbers

SUITE = registry.suite("compute")
DTYPES = (params.SINGLE, params.DOUBLE)


def test_steps_and_phases_are_the_published_ones() -> None:
    assert params.steps(1_000_000) == (100, 500, 1000, 5000, 10_000, 50_000, 100_000, 500_000, 1_000_000)
    assert params.steps(10**9)[-2:] == (500_000_000, 10**9)
    assert [phase.name for phase in SUITE.phases] == [params.FIRST, *OPERATIONS]


def test_inputs_depend_on_seed_and_have_requested_dtype() -> None:
    for dtype in DTYPES:
        one, again = numbers(3, dtype, 1000, 1), numbers(3, dtype, 1000, 1)
        assert one.dtype == dtype and (one == again).all() and one.min() >= 0 and one.max() < 1
        assert (numbers(4, dtype, 1000, 1) != one).any()
        pairs = generate(3, dtype, 1000, 1, ("x", "y"))
        assert (pairs["x"] == one).all() and 0.6 < np.corrcoef(one, pairs["y"])[0, 1] < 0.8


def share(workload: ComputeWorkload, phase: Phase) -> Iterator[Any]:
    """The operations of a phase with a single client. The suite opens its engine itself."""
    port: Any = None
    return workload.work(phase, port, 0, 1, 0)


def right(name: str, arrays: Any) -> Any:
    x = arrays.get("x")
    return {
        "avg": lambda: float(x.mean(dtype=np.float64)),
        "max": lambda: float(x.max()),
        "sin": lambda: np.sin(x.astype(np.float64)).astype(x.dtype),
        "sum": lambda: float(x.sum(dtype=np.float64)),
        "sum2d": lambda: arrays["grid"].sum(axis=0, dtype=np.float64).tolist(),
        "corr": lambda: float(np.corrcoef(x.astype("f8"), arrays["y"].astype("f8"))[0, 1]),
    }[name]()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_right_answer_passes_but_nearly_right_fails(name: str, dtype: str) -> None:
    arrays = generate(1, dtype, 300_000, 3, INPUTS[name])
    reference, answer = Reference(arrays), right(name, arrays)
    assert reference.check(name, answer) == {"sin": 300_000, "sum2d": 3}.get(name, 1)
    off = {"float32": 1.001, "float64": 1 + 1e-8}[dtype]
    nearly = np.asarray(answer) * off
    if name == "sin":
        nearly = np.asarray(answer).copy()
        nearly[299_999] += 1e-3 if dtype == "float32" else 1e-12
    for wrong in (nearly, np.asarray(answer) * np.nan, None, "much", [answer, answer], np.zeros(0)):
        with pytest.raises(Wrong):
            reference.check(name, wrong)


def test_a_naive_sum_of_float32_is_wrong() -> None:
    """In float32 the sum of 20 million numbers stops growing: a single number is too small to change the large
    sum."""
    arrays = {"x": np.full(20_000_000, 0.999, np.float32)}
    (last,) = np.add.accumulate(arrays["x"], dtype=np.float32)[-1:]
    with pytest.raises(Wrong, match="sum"):
        Reference(arrays).check("sum", last)
    assert Reference(arrays).check("sum", arrays["x"].sum()) == 1


def test_an_answer_is_compared_without_its_own_methods() -> None:
    class Sure(np.ndarray):
        def __le__(self, other: Any) -> Any:
            return np.True_

        def __sub__(self, other: Any) -> Any:
            return np.zeros(1)

    arrays = generate(1, "float64", 100, 3, ("x",))
    with pytest.raises(Wrong):
        Reference(arrays).check("sum", np.array([1.0]).view(Sure))


class Planned:
    """A lazy result, as Dask, Polars and JAX return it, which converts to the right answer."""

    def __init__(self, right: Any, word: str) -> None:
        self._right = right
        setattr(self, word, lambda: False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._right)


@pytest.mark.parametrize("word", ["compute", "collect", "is_ready"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_lazy_answer_is_wrong(name: str, word: str) -> None:
    arrays = generate(1, "float32", 1000, 3, INPUTS[name])
    assert Reference(arrays).check(name, Planned(right(name, arrays), "ready"))
    with pytest.raises(Wrong, match=f"{name}: got Planned, which is planned and not computed"):
        Reference(arrays).check(name, Planned(right(name, arrays), word))


def test_wrong_answers_fail_check_and_preparation(tmp_path: Any) -> None:
    """One wrong answer after a right one is noticed, and so is an engine whose answers are all wrong."""
    spec = registry.engine("numpy").reduce_to_port("compute")
    given: dict[str, Any] = {"size": 10, "dtype": "float32", "columns": 3, "repeats": 3}
    workload = ComputeWorkload(Job(spec, tmp_path, None, spec.resolve({}), given, seed=1, clients=1))
    (phase,) = (phase for phase in SUITE.phases if phase.name == "sum")
    workload.prepare(phase)
    (work,) = share(workload, phase)
    (call,) = work.calls(None)
    answer = call(work.arguments[0])
    assert work.check([answer]) == 1
    with pytest.raises(Wrong, match="sum: got"):
        work.check([answer, answer * 1.01])
    workload.close()

    def wrong_port(engine: Any) -> Any:
        port = spec.ports["compute"].open(engine)
        port.operations = dict.fromkeys(OPERATIONS, lambda handle: 0.1)
        return port

    wrong = replace(spec, ports={"compute": replace(spec.ports["compute"], implementation=wrong_port)})
    workload = ComputeWorkload(Job(wrong, tmp_path, None, spec.resolve({}), given, seed=1, clients=1))
    with pytest.raises(Wrong, match="avg: got"):
        workload.prepare(phase)
    workload.close()


def test_memory_error_of_operation_ends_the_trial(tmp_path: Any) -> None:
    spec = registry.engine("numpy").reduce_to_port("compute")
    given: dict[str, Any] = {"size": 10, "dtype": "float32", "columns": 3, "repeats": 3}
    workload = ComputeWorkload(Job(spec, tmp_path, None, spec.resolve({}), given, seed=1, clients=1))
    (phase,) = (phase for phase in SUITE.phases if phase.name == "sum")
    workload.prepare(phase)
    (work,) = share(workload, phase)
    with pytest.raises(MemoryError, match="sum: ArrayMemoryError"):
        work.check([Failure("ArrayMemoryError: Unable to allocate 4 GiB")])
    assert work.check([Failure("ValueError: no")]) == 0
    workload.close()


def test_sines_reuse_allocated_memory(tmp_path: Any) -> None:
    """Page faults would take longer than the sines."""
    spec = registry.engine("numpy").reduce_to_port("compute")
    given: dict[str, Any] = {"size": 100_000, "dtype": "float32", "columns": 3, "repeats": 100}
    workload = ComputeWorkload(Job(spec, tmp_path, None, spec.resolve({}), given, seed=1, clients=1))
    (phase,) = (phase for phase in SUITE.phases if phase.name == "sin")
    workload.prepare(phase)
    faults = 0
    for work in share(workload, phase):
        (call,) = work.calls(None)
        before = getrusage(RUSAGE_SELF).ru_minflt
        # Keep the answers for the check, as the measuring loop does.
        answers = [call(argument) for argument in work.arguments]
        faults += getrusage(RUSAGE_SELF).ru_minflt - before
        work.check(answers)
        del answers
    workload.close()
    written_pages = 100 * 100_000 * 4 // 4096
    assert faults < written_pages / 4


@pytest.mark.parametrize(("takes_ns", "calls"), [(1_000_000, 10 * 5), (60_000_000, 5), (500_000_000, 1)])
def test_slow_operations_get_fewer_untimed_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, takes_ns: int, calls: int
) -> None:
    """Slow operations get fewer untimed calls: five before each of ten operations of 200 ms would take too long."""
    spec = registry.engine("numpy").reduce_to_port("compute")
    given: dict[str, Any] = {"size": 100_000, "dtype": "float32", "columns": 3, "repeats": 10}
    job = Job(spec, tmp_path, None, spec.resolve({}), given, seed=1, clients=1)
    clock, calls_made = [0], []
    monkeypatch.setattr("dyno.suites.compute.workload.perf_counter_ns", lambda: clock[0])
    workload = ComputeWorkload(job)
    (phase,) = (phase for phase in SUITE.phases if phase.name == "sin")
    workload.prepare(phase)

    def operation(handle: Any) -> None:
        calls_made.append(handle)
        clock[0] += takes_ns

    workload._operation = operation
    assert len(list(share(workload, phase))) == 10
    workload.close()
    assert len(calls_made) == calls


def test_first_result_includes_opening_the_engine(tmp_path: Any) -> None:
    opened: list[str] = []

    class Late(Null):
        def __init__(self, *arguments: Any) -> None:
            opened.append("opened")

    spec = registry.engine("null").reduce_to_port("compute")
    given: dict[str, Any] = {"size": 10, "dtype": "float32", "columns": 3, "repeats": 3}
    job = Job(replace(spec, opener=Late), tmp_path, None, {}, given, seed=1, clients=1)
    workload, (first, *_) = ComputeWorkload(job), SUITE.phases
    workload.conformance()
    assert workload.opens(first) and not any(workload.opens(phase) for phase in SUITE.phases[1:])
    workload.prepare(first)
    (work,) = share(workload, first)
    assert opened == []
    (call,) = work.calls(None)
    answer = call(None)
    assert opened == ["opened"]
    assert list(work.parts([answer])) == ["open", "load", "compute"]
    workload.close()
