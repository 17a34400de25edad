"""Guards the objects suite: its inputs are the same for everybody, its answers are judged, and what was acknowledged
and is not there afterwards is found. On ZODB's storage in memory, where what goes wrong can be put in.
"""

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
from dyno.suites.objects.dataset import HEAD_BYTES, OWN, SETS, SHARED, Dataset, client_branch
from dyno.suites.objects.transactions import ObjectPosition, Task
from dyno.suites.objects.verify import in_child_process
from dyno.suites.objects.workload import ObjectsWorkload

SUITE = registry.suite("objects")
PHASES = {phase.name: phase for phase in SUITE.phases}
FEW: dict[str, Any] = {"objects": 7, "transactions": 3, "object_size": 40, "blob_size": 100, "min_objects": 20}


def job(home: Path, engine: str = "mappingstorage", clients: int = 1, **given: Any) -> Job:
    spec = registry.engine(engine).through("objects")
    if not spec.floor:
        require(spec)
    params = {setting.name: setting.default for setting in SUITE.params} | FEW | given
    return Job(spec, home, spec.default_tier, spec.resolve({}), params, seed=1, clients=clients)


@pytest.fixture(params=["mapping", "btree"])
def workload(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectsWorkload]:
    with closing(ObjectsWorkload(job(tmp_path, clients=2, container=request.param))) as made:
        yield made


def slices(workload: ObjectsWorkload, phase: Phase, port: Any, client: int = 0, round: int = 0) -> list[Operations]:
    found = list(workload.work(phase, port, client, 2, round))
    assert all(isinstance(each, Operations) for each in found)
    return found  # type: ignore[return-value]


def done(workload: ObjectsWorkload, name: str, clients: int = 2) -> int:
    """Does a phase, one client after the other; returns what was compared."""
    phase, compared = PHASES[name], 0
    workload.prepare(phase)
    for client in range(clients):
        with workload.connect() as port:
            for work in slices(workload, phase, port, client):
                (call,) = work.calls(None)
                compared += work.check([call(argument) for argument in work.arguments])
    return compared


# -- inputs ---------------------------------------------------------------------------------------------------


def test_no_two_contents_are_the_same_and_each_has_its_size() -> None:
    data = Dataset(50, 1)
    made = {data.content(number, version) for number in range(200) for version in range(5)}
    assert len(made) == 1_000 and {len(each) for each in made} == {50}
    assert Dataset(50, 1).contents(3, 4, 2) == [data.content(number, 2) for number in range(3, 7)]
    assert Dataset(50, 2).content(3, 2) != data.content(3, 2)
    assert len(Dataset(HEAD_BYTES, 1).content(10**15, 10**8)) == HEAD_BYTES


@pytest.mark.parametrize("name", sorted(PHASES.keys() - {"pack"}))
def test_every_phase_is_done_and_judged(name: str, workload: ObjectsWorkload) -> None:
    if name.startswith("blob"):
        with pytest.raises(Absent):
            workload.prepare(PHASES[name])
        return
    compared = done(workload, name)
    # Of two clients with three transactions of seven objects each.
    assert compared == (0 if name in ("write", "add", "conflicts") else 42)
    if PHASES[name].writes:
        assert workload.verify(PHASES[name]) > 0


def test_all_phases_follow_each_other(workload: ObjectsWorkload) -> None:
    for name, phase in PHASES.items():
        if not name.startswith("blob"):
            done(workload, name)
            assert workload.verify(phase) > 0 or not phase.writes
    told = workload.facts(PHASES["conflicts"])
    assert told == {"conflicts": 0, "transactions": 6}
    assert workload.facts(PHASES["pack"]) == {"before_bytes": None, "after_bytes": None}


def test_all_clients_read_the_same_containers_and_each_once(workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES["read-cold"])
    with workload.connect() as port:
        asked = [
            [argument for work in slices(workload, PHASES["read-cold"], port, client) for argument in work.arguments]
            for client in (0, 1)
        ]
        assert [sorted(each) for each in asked] == [[ObjectPosition(SETS, key) for key in range(3)]] * 2
        assert slices(workload, PHASES["read-cold"], port, round=1) == []
        assert slices(workload, PHASES["read-hot"], port, round=1) != []


def test_one_client_alone_has_no_conflicts(tmp_path: Path) -> None:
    with closing(ObjectsWorkload(job(tmp_path))) as workload, pytest.raises(Absent):
        workload.prepare(PHASES["conflicts"])


def test_a_null_engine_does_every_phase(tmp_path: Path) -> None:
    with closing(ObjectsWorkload(job(tmp_path, "null", clients=2))) as workload:
        for name, phase in PHASES.items():
            assert done(workload, name) == 0 and workload.verify(phase) == 0 and workload.facts(phase) == {}


def test_a_phase_is_measured_to_its_count(workload: ObjectsWorkload) -> None:
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
def test_a_wrong_answer_is_found(name: str, spoil: Any, workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES[name])
    with workload.connect() as port:
        (work,) = slices(workload, PHASES[name], port)
        (call,) = work.calls(None)
        answers = [call(argument) for argument in work.arguments]
        with pytest.raises(Wrong):
            work.check([*answers[:-1], spoil(answers[-1])])


def test_an_update_that_raised_leaves_its_successor_in_doubt_and_no_other(workload: ObjectsWorkload) -> None:
    workload.prepare(PHASES["update"])
    with workload.connect() as port:
        (work,) = slices(workload, PHASES["update"], port)
        first, _, third = (work.calls(None)[0](argument) for argument in work.arguments)
        assert work.check([first, Failure("it broke"), third]) == 7
        (work,) = slices(workload, PHASES["update"], port)
        assert work.check([work.calls(None)[0](argument) for argument in work.arguments]) == 21
    assert workload.verify(PHASES["update"]) > 0


@pytest.mark.parametrize("name", ["write", "add", "update", "conflicts", "pack"])
def test_what_is_lost_or_changed_afterwards_is_found(name: str, workload: ObjectsWorkload) -> None:
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


def test_what_nobody_wrote_is_found(workload: ObjectsWorkload) -> None:
    done(workload, "write")
    with workload.connect() as port:
        port.write(Task(client_branch(0, "write"), 99, [b"surplus"] * 7))
    with pytest.raises(Wrong, match="container 99 of client 0 exists"):
        workload.verify(PHASES["write"])


def test_one_object_in_two_places_is_found(workload: ObjectsWorkload) -> None:
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
def test_what_another_process_finds_is_told() -> None:
    assert in_child_process(lambda: 7) == 7
    for look, said in ((wrong, "it is not there"), (broken, "OSError: no such file"), (dead, "died")):
        with pytest.raises(Wrong, match=said):
            in_child_process(look)
