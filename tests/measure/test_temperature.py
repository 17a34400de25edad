"""Tests that cold is proven, and what makes a phase hot.

Cold: the engine is closed, its files leave the page cache, and only then is it opened again; what is still resident
then, and whether the device has been read from, decides on the sample's temperature. Hot: a whole untimed round of
all clients comes first. The tests are whole runs, with real engines and with those of `tests/plugins`.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shell import RECORDER, TESTS, Shell, small

from dyno.contracts.decoded_types import Residency
from dyno.contracts.model import Phase
from dyno.host.filesystem import filesystem
from dyno.host.usage import NOTHING, UNKNOWN, Usage
from dyno.measure.phase import judge_temperature
from dyno.measure.tally import Tally
from dyno.suites.records import PHASES

pytestmark = pytest.mark.usefixtures("processes")

COLD = tuple(phase.name for phase in PHASES if phase.temperature == "cold")
HOT = tuple(phase.name for phase in PHASES if phase.temperature == "hot")
LIVELY = TESTS / "plugins" / "lively"
DISK, SHM = Path("/var/tmp"), Path("/dev/shm")
IN_MEMORY = ("tmpfs", "ramfs")
Sample = dict[str, Any]


def test_the_records_suite_has_phases_of_both_temperatures() -> None:
    assert COLD == ("rand-key-cold", "scan-cold")
    assert HOT == ("rand-key", "rand-index", "scan")


def samples(shell: Shell, engine: str) -> dict[str, Sample]:
    """Returns the samples of an engine's only trial by phase."""
    (attempt,) = shell.attempts(engine)
    assert attempt["outcome"] == "ok", attempt["why"]
    assert all(sample["void"] is None and sample["errors"] == 0 for sample in attempt["samples"])
    return {sample["phase"]: sample for sample in attempt["samples"]}


def measure(shell: Shell, engines: str, *words: object, **plan: object) -> None:
    chosen = {"samples": 1, "retries": 0, "phases": ",".join(COLD), **plan}
    shell.dyno("run", "records", "-e", engines, *small(**chosen), *words, "-o", shell.file)


# -- cold -----------------------------------------------------------------------------------------------------


def can_be_cold(place: Path) -> bool:
    return filesystem(place)["type"] not in IN_MEMORY


@pytest.fixture(scope="module")
def ran() -> Iterator[Shell]:
    """Run of the cold phases, with engines that have files, one that has none, and null engines."""
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else None) as name:
        place = Path(name)
        if not can_be_cold(place):
            pytest.skip(f"{place} is in memory")
        shell = Shell(place, place / "work")
        measure(shell, "sqlite,lmdb,memory", param_records=20_000)
        yield shell
        shell.kill_strays()


@pytest.mark.claim("Cold is proven: closed, evicted, at most 1 % resident, and read from the device")
@pytest.mark.parametrize("engine", ["sqlite", "lmdb"])
@pytest.mark.parametrize("phase", COLD)
def test_cold_phase_of_real_engine_is_proven(ran: Shell, engine: str, phase: str) -> None:
    sample = samples(ran, engine)[phase]
    assert sample["temperature"] == "cold"
    residency = sample["residency"]
    assert residency["file_bytes"] > 20_000 * 150
    assert 0 <= residency["resident_bytes"] <= residency["file_bytes"] / 100
    assert residency["evicted_by"] in ("files", "files+drop_caches")
    assert sample["client"]["read_bytes"] > 0
    assert (sample["operations"], sample["ended_by"]) == (200 if phase == "rand-key-cold" else 10, "count")
    assert sample["checked"] >= sample["operations"]


@pytest.mark.claim("An engine without files has no cold phases, and the table says so")
def test_engine_without_files_has_no_cold_phases(ran: Shell) -> None:
    assert samples(ran, "memory") == {}
    (attempt,) = ran.attempts("memory")
    assert attempt["absent"] == dict.fromkeys(COLD, "stores nothing in files, so that it can't be cold")
    for engine in ("sqlite", "lmdb"):
        assert ran.attempts(engine)[0]["absent"] == {}


def test_null_engine_runs_cold_phases_without_temperature(ran: Shell) -> None:
    for attempt in ran.attempts("null"):
        assert attempt["absent"] == {}
        assert [(sample["phase"], sample["operations"]) for sample in attempt["samples"]] == [
            ("rand-key-cold", 200),
            ("scan-cold", 10),
        ]
        assert [(sample["temperature"], sample["residency"]) for sample in attempt["samples"]] == [("none", None)] * 2


@pytest.mark.parametrize("engine", ["sqlite", "lmdb"])
def test_several_clients_are_measured_cold(shell: Shell, engine: str) -> None:
    if not can_be_cold(shell.work):
        pytest.skip("the work directory is in memory")
    measure(shell, engine, param_records=4_000, clients=2)
    for sample in samples(shell, engine).values():
        assert (sample["temperature"], sample["clients"]) == ("cold", 2)
        assert sample["client"]["read_bytes"] > 0


@pytest.mark.claim("A phase that can't be made cold is marked lukewarm")
@pytest.mark.parametrize("engine", ["mapper", "mapper:by=child"])
def test_an_engine_whose_files_stay_mapped_is_lukewarm(shell: Shell, engine: str) -> None:
    """Residency decides on the temperature, not the attempt to evict."""
    shell.plugins = [LIVELY]
    measure(shell, engine)
    found = samples(shell, "mapper")
    assert list(found) == list(COLD)
    for sample in found.values():
        assert sample["temperature"] == "lukewarm"
        assert sample["residency"]["resident_bytes"] > sample["residency"]["file_bytes"] / 2
    assert shell.strays() == []
    assert shell.left() == []


@pytest.mark.claim("A phase that can't be made cold is marked lukewarm")
def test_a_work_directory_in_memory_is_lukewarm(shell: Shell) -> None:
    if not SHM.is_dir() or can_be_cold(SHM):
        pytest.skip("there is no directory in memory")
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=SHM) as place:
        measure(shell, "lmdb", "--work", place)
        assert list(Path(place).iterdir()) == []
    for sample in samples(shell, "lmdb").values():
        assert sample["temperature"] == "lukewarm"


def test_cold_phase_stays_cold_after_warm_up(shell: Shell) -> None:
    if not can_be_cold(shell.work):
        pytest.skip("the work directory is in memory")
    measure(shell, "lmdb", "--warmup", "0.2", param_records=4_000)
    for sample in samples(shell, "lmdb").values():
        assert sample["temperature"] == "cold"


# -- order of calls -------------------------------------------------------------------------------------------


def lives(shell: Shell, engine: str, *words: object, **plan: object) -> dict[int, list[dict[str, Any]]]:
    """Runs a recording engine; returns the records of each process since measuring began, in order of their start."""
    log = shell.home / "calls"
    shell.plugins, shell.given = [RECORDER], {"RECORDER_LOG": str(log)}
    measure(shell, engine, *words, **plan)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    start = next(at for at, event in enumerate(events) if event["call"] == "version")
    found: dict[int, list[dict[str, Any]]] = {}
    for event in events[start:]:
        found.setdefault(event["pid"], []).append(event)
    return found


def told(events: list[dict[str, Any]]) -> list[str]:
    """Returns the names of the calls; consecutive equal ones are listed once."""
    calls = [event["call"] for event in events if event["call"] != "version"]
    return [call for at, call in enumerate(calls) if at == 0 or calls[at - 1] != call]


@pytest.mark.claim("Cold is proven: closed, evicted, at most 1 % resident, and read from the device")
def test_engine_closes_before_eviction_and_opens_after(shell: Shell) -> None:
    if not can_be_cold(shell.work):
        pytest.skip("the work directory is in memory")
    (events,) = lives(shell, "recorder-lmdb", phases="rand-key,rand-key-cold,scan-cold").values()
    # When it is closed, the engine has read all its files, but it finds an empty cache when it is opened again.
    assert told(events) == ["get", "close", "open", "get", "close", "open", "stretch", "close"]
    opened = [event for event in events if event["call"] == "open"]
    assert [event["files"] > 0 for event in opened] == [True, True]
    assert [event["resident_percent"] for event in opened] == [pytest.approx(0, abs=1)] * 2
    assert [sample["temperature"] for sample in samples(shell, "recorder-lmdb").values()] == ["hot", "cold", "cold"]


def test_client_processes_open_the_engine_after_eviction(shell: Shell) -> None:
    if not can_be_cold(shell.work):
        pytest.skip("the work directory is in memory")
    first, *clients = lives(shell, "recorder-lmdb", clients=2, phases="rand-key-cold").values()
    assert told(first) == ["close", "open", "close"]
    assert [told(events) for events in clients] == [["open", "get", "close"]] * 2
    # The first client finds an empty cache. The second may find pages that the first has read.
    assert min(events[0]["resident_percent"] for events in clients) <= 1


# -- hot ------------------------------------------------------------------------------------------------------

RECORDS = 40


def asked(events: list[dict[str, Any]], call: str) -> list[tuple[int, str]]:
    """Returns thread and key of each request, in order."""
    return [(event["thread"], event["key"]) for event in events if event["call"] == call]


@pytest.mark.claim("Hot means that each client did a whole untimed round first")
@pytest.mark.parametrize(("engine", "clients"), [("recorder", 1), ("recorder-threads", 3)])
def test_each_client_does_a_whole_untimed_round_first(shell: Shell, engine: str, clients: int) -> None:
    (events,) = lives(shell, engine, phases="rand-key", param_records=RECORDS, clients=clients).values()
    gets = asked(events, "get")
    assert set(Counter(gets).values()) == {2}, "every key twice, by one and the same client"
    assert len({thread for thread, _ in gets}) == clients
    # No client begins its second round before all have ended the first.
    assert set(gets[:RECORDS]) == set(gets[RECORDS:])
    assert gets[:RECORDS] != gets[RECORDS:], "in another order"
    sample = samples(shell, engine)["rand-key"]
    assert (sample["operations"], sample["checked"], sample["temperature"]) == (RECORDS, RECORDS, "hot")


@pytest.mark.parametrize(("phase", "seeks"), [("rand-index", RECORDS), ("scan", RECORDS // 20)])
def test_hot_phase_runs_twice_and_counts_once(shell: Shell, phase: str, seeks: int) -> None:
    (events,) = lives(shell, "recorder", phases=phase, param_records=RECORDS).values()
    assert len(asked(events, "seek")) == 2 * seeks
    sample = samples(shell, "recorder")[phase]
    assert (sample["operations"], sample["temperature"]) == (seeks, "hot")


def test_phase_without_temperature_runs_once(shell: Shell) -> None:
    (events,) = lives(shell, "recorder", phases="mixed", param_records=RECORDS, param_mix="c").values()
    at = max(at for at, event in enumerate(events) if event["call"] == "begin reading")
    assert len(asked(events[:at], "get")) == RECORDS
    assert samples(shell, "recorder")["mixed"]["temperature"] == "none"


@pytest.mark.claim("Hot means that each client did a whole untimed round first")
@pytest.mark.parametrize(
    ("engine", "clients"), [("recorder:pause_us=5000", 1), ("recorder-threads:pause_us=5000", 2)]
)
def test_phase_with_incomplete_untimed_round_is_lukewarm(shell: Shell, engine: str, clients: int) -> None:
    plan = {"phases": "rand-key", "param_records": RECORDS, "clients": clients, "budget": 0.01}
    lives(shell, engine, **plan)
    sample = samples(shell, engine.partition(":")[0])["rand-key"]
    assert sample["temperature"] == "lukewarm"
    assert (sample["ended_by"], sample["operations"] < RECORDS) == ("budget", True)


# -- the verdict ----------------------------------------------------------------------------------------------

FILE_BYTES = 1_000_000
NEITHER, A_HOT, A_COLD = (Phase("p", "p", "op", False, temperature) for temperature in ("none", "hot", "cold"))
READ, NONE_READ = replace(NOTHING, read_bytes=4096), NOTHING


def verdict(phase: Phase, used: Usage = READ, served: Usage = NOTHING, warm: bool = True, resident: Any = 0) -> str:
    residency = Residency(file_bytes=FILE_BYTES, resident_bytes=resident, evicted_by="files")
    tally = Tally()
    tally.usage, tally.warm = used, warm
    return judge_temperature(phase, tally, residency if phase is A_COLD else None, served)


def test_phase_is_hot_after_its_untimed_round() -> None:
    assert (verdict(A_HOT), verdict(A_HOT, warm=False), verdict(NEITHER)) == ("hot", "lukewarm", "none")


@pytest.mark.parametrize(
    ("resident", "wanted"), [(0, "cold"), (10_000, "cold"), (10_001, "lukewarm"), (None, "lukewarm")]
)
def test_cold_phase_has_at_most_1_percent_resident(resident: Any, wanted: str) -> None:
    assert verdict(A_COLD, resident=resident) == wanted


@pytest.mark.claim("Cold is proven: closed, evicted, at most 1 % resident, and read from the device")
@pytest.mark.parametrize(
    ("used", "served", "wanted"),
    [
        (READ, NOTHING, "cold"),
        (NONE_READ, NOTHING, "lukewarm"),
        (NONE_READ, READ, "cold"),
        (NONE_READ, NONE_READ, "lukewarm"),
        # If reads are not counted, residency alone decides.
        (UNKNOWN, NOTHING, "cold"),
        (NONE_READ, UNKNOWN, "cold"),
    ],
)
def test_cold_phase_must_read_from_the_device(used: Usage, served: Usage, wanted: str) -> None:
    assert verdict(A_COLD, used, served) == wanted
