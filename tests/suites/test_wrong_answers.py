"""Draws wrong values, one among 100,000, in answers and stores of the suites `series`, `arrays`, `objects` and
`compute`, and counts how many the suites' own checks find. `pytest -s` prints the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from needed import require

from dyno import registry
from dyno.contracts.model import Wrong
from dyno.contracts.suite import Job, Operations
from dyno.suites.arrays.dataset import Dataset
from dyno.suites.arrays.port import BY_NAME, NAMES
from dyno.suites.arrays.workload import ArraysWorkload
from dyno.suites.compute.workload import SINES, Reference, generate
from dyno.suites.objects.dataset import client_branch
from dyno.suites.objects.transactions import ObjectPosition, Task
from dyno.suites.objects.workload import ObjectsWorkload
from dyno.suites.series import verify
from dyno.suites.series.port import DTYPES, SampleBatch, Samples

COUNT = 100_000
CHANGES = 25


def report(suite: str, what: str, wrong: int, found: int) -> None:
    print(f"{suite}: {what}: {wrong} changes drawn, {found} found")
    assert found == wrong


def is_wrong(check: Callable[..., Any], *arguments: Any) -> bool:
    try:
        check(*arguments)
    except Wrong:
        return True
    return False


def change_column(random: np.random.Generator, values: Any) -> Any:
    """Returns a copy of a column with a changed value, two exchanged values, or a value in place of another."""
    values = values.copy()
    one, other = random.choice(len(values), 2, replace=False)
    how = random.integers(3)
    if how and values[one] != values[other]:
        values[[one, other]] = values[[other, one if how == 1 else other]]
    elif values.dtype.kind == "f":
        values[one] = np.nextafter(values[one], np.inf)
    elif values.dtype.kind == "S":
        values[one] = b"?" + values[one][1:]
    else:
        values[one] += 1
    return values


def lose_or_double(random: np.random.Generator, columns: Any) -> list[Any]:
    at = int(random.integers(len(columns[0])))
    if random.integers(2):
        return [np.delete(values, at) for values in columns]
    return [np.insert(values, at, values[at]) for values in columns]


def test_each_wrong_sample_of_an_archive_is_found() -> None:
    random = np.random.default_rng(1)
    ts = np.sort(random.integers(10**18, 10**18 + 10**15, COUNT))
    columns = {
        "pv": random.integers(0, 50, COUNT), "ts": ts, "val": random.normal(0, 10, COUNT).round(3),
        "stat": random.integers(0, 20, COUNT), "sevr": random.integers(0, 4, COUNT),
    }  # fmt: skip
    right = SampleBatch(**{name: values.astype(DTYPES[name]) for name, values in columns.items()})
    digest = verify.digest_of([right])
    found = 0
    for number in range(CHANGES):
        if number % 5 == 0:
            wrong = SampleBatch(*lose_or_double(random, right))
        else:
            name = SampleBatch._fields[int(random.integers(1, 5))]
            wrong = right._replace(**{name: change_column(random, getattr(right, name))})
        found += is_wrong(verify.verify_digest, verify.digest_of([wrong]), digest)
    report("series", "all samples, by digest", CHANGES, found)
    found = 0
    few = Samples(*(values[: COUNT // 20] for values in right[1:]))
    for number in range(CHANGES):
        name = Samples._fields[number % 4]
        wrong_one = few._replace(**{name: change_column(random, getattr(few, name))})
        if number % 5 == 0:
            wrong_one = Samples(*lose_or_double(random, few))
        found += is_wrong(verify.verify_samples, "it", wrong_one, few)
    report("series", "samples of a variable", CHANGES, found)


class Table:
    """A port `arrays` in memory."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def sum(self, name: str) -> Any:
        values = self.columns[name]
        return int(values.sum(dtype="i8")) if BY_NAME[name].exact else float(values.sum())

    def slice(self, rows: range) -> dict[str, Any]:
        return {name: values[rows.start : rows.stop] for name, values in self.columns.items()}


def test_each_wrong_value_in_a_table_is_found(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    spec = registry.engine("numpy_memory").reduce_to_port("arrays")
    suite = registry.suite("arrays")
    params = {setting.name: setting.default for setting in suite.params} | {"rows": COUNT}
    workload = ArraysWorkload(Job(spec, tmp_path, None, spec.resolve({}), params, seed=1, clients=1))
    right = dict(Dataset(1).chunk(range(COUNT)))
    workload._model.append(right)
    table = Table(right)

    @contextmanager
    def connect() -> Iterator[Table]:
        yield table

    workload.connect = connect  # type: ignore[method-assign]
    phases = [phase for phase in suite.phases if phase.writes]
    assert all(workload.verify(phase) for phase in phases)
    found = 0
    for number in range(CHANGES):
        if number % 5 == 0:
            table.columns = dict(zip(NAMES, lose_or_double(random, list(right.values())), strict=True))
        else:
            name = NAMES[int(random.integers(len(NAMES)))]
            table.columns = {**right, name: change_column(random, right[name])}
        found += is_wrong(workload.verify, phases[number % len(phases)])
    report("arrays", "values of a written table", CHANGES, found)


def test_each_wrong_byte_of_written_objects_is_found(tmp_path: Path) -> None:
    suite, random = registry.suite("objects"), Random(3)
    spec = registry.engine("mappingstorage").reduce_to_port("objects")
    require(spec)
    params = {setting.name: setting.default for setting in suite.params}
    params |= {"objects": 100, "transactions": 60, "object_size": 40}
    (phase,) = (phase for phase in suite.phases if phase.name == "write")
    job = Job(spec, tmp_path, spec.default_tier, spec.resolve({}), params, seed=1, clients=1)
    found = 0
    with closing(ObjectsWorkload(job)) as workload:
        workload.prepare(phase)
        branch = client_branch(0, "write")
        with workload.connect() as port:
            for work in workload.work(phase, port, 0, 1, 0):
                assert isinstance(work, Operations)
                (call,) = work.calls(None)
                work.check([call(argument) for argument in work.arguments])
            assert workload.verify(phase) >= 60 * 100
            for _ in range(CHANGES):
                key = random.randrange(60)
                right = port.read(ObjectPosition(branch, key))
                wrong = list(right)
                one, other = random.sample(range(len(wrong)), 2)
                at = random.randrange(40)
                changed = wrong[one][:at] + bytes([wrong[one][at] ^ 1]) + wrong[one][at + 1 :]
                exchanged = random.random() < 0.3
                wrong[one], wrong[other] = (wrong[other], wrong[one]) if exchanged else (changed, wrong[other])
                port.update(Task(branch, key, wrong))
                found += is_wrong(workload.verify, phase)
                port.update(Task(branch, key, right))
    report("objects", "bytes of written objects, and exchanged objects", CHANGES, found)


def test_each_wrong_sine_is_found() -> None:
    random = np.random.default_rng(4)
    for dtype, tolerance in SINES.items():
        arrays = generate(1, dtype, COUNT, 1, ("x",))
        reference = Reference(arrays)
        right = np.sin(arrays["x"].astype("f8")).astype(dtype)
        assert reference.check("sin", right) == COUNT
        found = 0
        for number in range(CHANGES):
            one, other = random.choice(COUNT, 2, replace=False)
            wrong = right.copy()
            if number % 4 == 0:
                (wrong,) = lose_or_double(random, [right])
            elif number % 4 == 1:
                wrong[[one, other]] = wrong[[other, one]]
            else:
                wrong[one] += random.choice((-1, 1)) * 1.2 * tolerance
            found += is_wrong(reference.check, "sin", wrong)
        report("compute", f"sines of {dtype}", CHANGES, found)
