"""Tests the objects suite on ZODB's storage in memory: all clients get the same inputs, wrong answers are noticed,
and so are acknowledged changes that are lost afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from needed import require

from dyno import registry
from dyno.contracts.model import Absent, Phase, Wrong
from dyno.contracts.pace import Pace
from dyno.contracts.suite import Failure, Job, Operations
from dyno.measure.driver import measure
from dyno.suites.objects.dataset import OWN, SETS, SHARED, Dataset, client_branch
from dyno.suites.objects.transactions import HEAD_BYTES, ObjectPosition, Task
from dyno.suites.objects.work import in_child_process
from dyno.suites.objects.workload import ObjectsWorkload

SUITE = registry.suite("objects")
PHASES = {phase.name: phase for phase in SUITE.phases}
FEW: dict[str, Any] = {"objects": 7, "transactions": 3, "object_size": 40, "blob_size": 100, "min_objects": 20}


def job(home: Path, engine: str = "mappingstorage", clients: int = 1, **given: Any) -> Job:
    spec = registry.engine(engine).reduce_to_port("objects")
    if not spec.floor:
        require(spec)
    params = {setting.name: setting.default for setting in SUITE.params} | FEW | given
    return Job(spec, home, spec.default_tier, spec.resolve({}), params, seed=1, clients=clients)


@pytest.fixture(params=["mapping", "btree"])
def workload(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectsWorkload]:
    with closing(ObjectsWorkload(job(tmp_path, clients=2, container=request.param))) as opened:
        yield opened


def slices(workload: ObjectsWorkload, phase: Phase, port: Any, client: int = 0, round: int = 0) -> list[Operations]:
    slices_of_phase = list(workload.work(phase, port, client, 2, round))
    assert all(isinstance(each, Operations) for each in slices_of_phase)
    return slices_of_phase  # type: ignore[return-value]


def done(workload: ObjectsWorkload, name: str, clients: int = 2) -> int:
    """Runs a phase, one client after the other; returns how many answers were compared."""
    phase, compared = PHASES[name], 0
    workload.prepare(phase)
    for client in range(clients):
        with workload.connect() as port:
            for work in slices(workload, phase, port, client):
                (call,) = work.calls(None)
                compared += work.check([call(argument) for argument in work.arguments])
    return compared


# -- inputs ---------------------------------------------------------------------------------------------------


def test_contents_differ_and_have_the_requested_size() -> None:
    data = Dataset(50, 1)
    opened = {data.content(number, version) for number in range(200) for version in range(5)}
    assert len(opened) == 1_000 and {len(each) for each in opened} == {50}
    assert Dataset(50, 1).contents(3, 4, 2) == [data.content(number, 2) for number in range(3, 7)]
    assert Dataset(50, 2).content(3, 2) != data.content(3, 2)
    assert len(Dataset(HEAD_BYTES, 1).content(10**15, 10**8)) == HEAD_BYTES


@pytest.mark.parametrize("name", sorted(PHASES.keys() - {"pack"}))
def test_every_phase_runs_and_is_checked(name: str, workload: ObjectsWorkload) -> None:
    if name.startswith("blob"):
        with pytest.raises(Absent):
            workload.prepare(PHASES[name])
        return
    compared = done(workload, name)
    # Two clients run three transactions each, of seven objects each.
    assert compared == (0 if name in ("write", "add", "conflicts") else 42)
    if PHASES[name].writes:
        assert workload.verify(PHASES[name]) > 0


def test_all_phases_run_on_one_store(workload: ObjectsWorkload) -> None:
    for name, phase in PHASES.items():
        if not name.startswith("blob"):
            done(workload, name)
            assert workload.verify(phase) > 0 or not phase.writes
    told = workload.facts(PHASES["conflicts"])
    assert told == {"conflicts": 0, "transactions": 6}
    assert workload.facts(PHASES["pack"]) == {"before_bytes": None, "after_bytes": None}


def test_every_client_reads_each_container_once(workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES["read-cold"])
    with workload.connect() as port:
        positions = [
            [argument for work in slices(workload, PHASES["read-cold"], port, client) for argument in work.arguments]
            for client in (0, 1)
        ]
        assert [sorted(each) for each in positions] == [[ObjectPosition(SETS, key) for key in range(3)]] * 2
        assert slices(workload, PHASES["read-cold"], port, round=1) == []
        assert slices(workload, PHASES["read-hot"], port, round=1) != []


def test_conflicts_needs_two_clients(tmp_path: Path) -> None:
    with closing(ObjectsWorkload(job(tmp_path))) as workload, pytest.raises(Absent):
        workload.prepare(PHASES["conflicts"])


def test_a_null_engine_runs_every_phase(tmp_path: Path) -> None:
    with closing(ObjectsWorkload(job(tmp_path, "null", clients=2))) as workload:
        for name, phase in PHASES.items():
            assert done(workload, name) == 0 and workload.facts(phase) == {}


def test_a_phase_ends_after_its_transactions(workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES["update"])
    with workload.connect() as port:
        tally = measure(lambda round: workload.work(PHASES["update"], port, 0, 1, round), Pace(), lambda: None)
    assert (tally.operations, tally.items, tally.checked, tally.void) == (3, 21, 21, None)


# -- judgement ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read", "update", "read-warm", "read-hot"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c[:-1],
        lambda c: c[::-1],
        lambda c: [*c, c[0]],
        lambda c: [c[0] + b"x", *c[1:]],
        tuple,
        lambda c: None,
    ],
    ids=["missing", "reversed", "surplus", "longer", "tuple", "none"],
)
def test_wrong_storage_answer_is_detected(name: str, spoil: Any, workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES[name])
    with workload.connect() as port:
        (work,) = slices(workload, PHASES[name], port)
        (call,) = work.calls(None)
        answers = [call(argument) for argument in work.arguments]
        with pytest.raises(Wrong):
            work.check([*answers[:-1], spoil(answers[-1])])


def test_answer_after_failed_update_is_not_checked(workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES["update"])
    with workload.connect() as port:
        (work,) = slices(workload, PHASES["update"], port)
        first, _, third = (work.calls(None)[0](argument) for argument in work.arguments)
        assert work.check([first, Failure("it broke"), third]) == 7
        (work,) = slices(workload, PHASES["update"], port)
        assert work.check([work.calls(None)[0](argument) for argument in work.arguments]) == 21
    assert workload.verify(PHASES["update"]) > 0


@pytest.mark.parametrize("name", ["write", "add", "update", "conflicts", "pack"])
def test_lost_or_changed_objects_fail_verification(name: str, workload: ObjectsWorkload) -> None:
    done(workload, name)
    assert workload.verify(PHASES[name]) > 0
    with workload.connect() as port:
        if name == "write":
            port.remove(ObjectPosition(client_branch(1, "write"), 2))
        elif name == "conflicts":
            port.count(ObjectPosition(SHARED, 0))
        elif name == "pack":
            port.remove(ObjectPosition(SETS, 2))
        else:
            port.update(Task(OWN, 1, [b"other"] * 7))
    with pytest.raises(Wrong, match=f"after {name}"):
        workload.verify(PHASES[name])


def test_surplus_container_fails_verification(workload: ObjectsWorkload) -> None:
    done(workload, "write")
    with workload.connect() as port:
        port.write(Task(client_branch(0, "write"), 99, [b"surplus"] * 7))
    with pytest.raises(Wrong, match="container 99 of client 0 exists"):
        workload.verify(PHASES["write"])


def test_object_at_two_positions_fails_verification(workload: ObjectsWorkload) -> None:
    done(workload, "write")
    branch = client_branch(0, "write")
    with workload.connect() as port, port.writing() as root:
        root[branch][0][6] = root[branch][0][5]
    with pytest.raises(Wrong, match="after write"):
        workload.verify(PHASES["write"])


def wrong() -> int:
    raise Wrong("it is not there")


def broken() -> int:
    raise OSError("no such file")


def dead() -> int:
    import os

    os._exit(3)


@pytest.mark.usefixtures("processes")
def test_child_process_check_returns_result_or_raises_wrong() -> None:
    assert in_child_process(lambda: 7) == 7
    for look, said in ((wrong, "it is not there"), (broken, "OSError: no such file"), (dead, "died")):
        with pytest.raises(Wrong, match=said):
            in_child_process(look)
