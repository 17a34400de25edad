"""Whatever an engine does to its process, the run continues, reports the failure, and leaves nothing behind.

Guards rules 1, 2 and 4 of measuring. A wrong, stale, missing or extra answer voids the row. Errors are counted. A
crash, a hang or running out of memory is recorded, retried as planned, and affects no other engine. The engines are
in `tests/plugins/faulty`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from shell import FAULTY, TESTS, Shell, is_one_line, small

from dyno import results

pytestmark = pytest.mark.usefixtures("processes")

GIB = 1 << 30
VALID = None


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.plugins = [FAULTY]
    return shell


READING = {"phases": "rand-key"}
INSERTING = {"phases": "insert-blind-indices,rand-key,rand-index"}
WRITING = {"phases": "rand-key,scan,update,mixed,delete"}
IMPATIENT = {"timeout": 3, "retries": 0}


@dataclass(frozen=True)
class Fault:
    """Expected rows of a faulty engine."""

    engine: str
    rows: Mapping[str, str | None]
    """Maps a phase to a pattern for the whole `why`, or to VALID."""
    outcomes: tuple[str, ...]
    """Expected outcomes of the attempts at the engine's trial."""
    plan: Mapping[str, object]


def expected(engine: str, *outcomes: str, plan: Mapping[str, object] = READING, **rows: str | None) -> Fault:
    named = {phase.replace("_", "-"): why for phase, why in rows.items()}
    return Fault(engine, named, outcomes, plan)


RECORD = r"\{'name': .*"
FAULTS = (
    # Answers: one wrong record voids only its phase.
    expected(
        "liar-stale",
        "ok",
        plan=WRITING,
        rand_key=VALID,
        update=rf"void: after update the store holds {RECORD}'0000000.* where {RECORD}'000000[1-9].* was expected",
        mixed=rf"void: mixed, record \d+: got {RECORD}, expected {RECORD}",
    ),
    expected("liar-missing", "ok", rand_key=rf"void: rand-key, record \d+: got None, expected {RECORD}"),
    expected(
        "liar-surplus",
        "ok",
        plan=WRITING,
        rand_key=VALID,
        scan=rf"void: scan from record \d+(: got {RECORD}, expected {RECORD}|, number of records: .*)",
    ),
    expected(
        "hoarder",
        "ok",
        plan=WRITING,
        update=VALID,
        delete=r"void: after delete, index rev_name has an entry of no record: b'.*",
    ),
    expected(
        "hoarder:early=yes",
        "wrong",
        plan=WRITING,
        delete=r"void: conformance, delete: entries of rev_name after deleting: .*",
    ),
    # Wrong from the start: the conformance checks fail, and there is no retry.
    expected(
        "liar-missing:early=yes+every=1",
        "wrong",
        plan=INSERTING,
        insert_blind_indices=r"void: conformance, overwrite: get after overwriting: got None, expected .*",
        rand_key=r"void: conformance, overwrite: .*",
    ),
    # Crashes: the trial's earlier samples stay valid, with a doubt.
    expected(
        "crasher",
        "crash",
        "crash",
        plan=INSERTING,
        insert_blind_indices=VALID,
        rand_key="crash in rand-key: killed by SIGSEGV",
        rand_index="crash in rand-key: killed by SIGSEGV",
    ),
    expected("exiter", "crash", "crash", rand_key="crash in rand-key: exited with status 3 before it was done"),
    expected("exiter:status=0", "crash", "crash", rand_key="crash in rand-key: ended without a result"),
    # Processes that hang, during a phase or at the end.
    expected(
        "hanger",
        "timeout",
        plan={**READING, **IMPATIENT},
        rand_key="timeout in rand-key: not done after 3 s",
    ),
    # The phase ends, but the check of the store after the phase hangs; checks have a separate timeout.
    expected(
        "hanger",
        "timeout",
        plan={**IMPATIENT, "phases": "update"},
        update="timeout in update: Dyno's own check of the answers took more than 3 s: .*--timeout",
    ),
    expected("hanger:where=close", "timeout", plan={**READING, **IMPATIENT}, rand_key=VALID),
    # The result was reported before the interpreter's exit hung.
    expected("hanger:where=exit", "ok", rand_key=VALID),
    expected(
        "leaker:how=raise",
        "out-of-memory",
        "out-of-memory",
        rand_key="out-of-memory in rand-key: MemoryError: no memory left",
    ),
    # Openers: a refusal is final; an error is retried.
    expected("refuser", "refused", rand_key="refused in conformance: this engine does not feel like it"),
    expected(
        "refuser:for_ever=no",
        "error",
        "error",
        rand_key="error in conformance: can't connect to its server: Connection closed by server",
    ),
    expected("opener-error", "error", "error", rand_key="error in conformance: RuntimeError: no license found"),
    expected(
        "garbled",
        "error",
        "error",
        rand_key="error in rand-key: garbled: reading its settings: ValueError: dictionary update .*",
    ),
    # Errors are counted; the phase is valid if at most 1 % of its operations failed.
    expected("raiser", "ok", rand_key=VALID),
    expected(
        "raiser:every=10",
        "ok",
        rand_key=r"error: 10\.0 % of the operations failed .*: OSError: the disk is on strike",
    ),
    expected("raiser:every=1", "ok", rand_key="error: OSError: the disk is on strike"),
    # Output and leftover files are harmless.
    expected("printer", "ok", plan=INSERTING, insert_blind_indices=VALID, rand_key=VALID),
    expected("forker", "ok", rand_key=VALID),
    expected("forker:how=fork", "ok", rand_key=VALID),
)


def group_by_plan() -> list[Any]:
    """The faults of each plan, which one run measures together."""
    groups: dict[str, list[Fault]] = {}
    for fault in FAULTS:
        groups.setdefault(repr(fault.plan), []).append(fault)
    return [pytest.param(faults, id=", ".join(fault.engine for fault in faults)) for faults in groups.values()]


@pytest.mark.claim("One wrong answer voids the phase")
@pytest.mark.claim("A crash, a hang or a lack of memory ends one trial and not the run")
@pytest.mark.parametrize("faults", group_by_plan())
def test_faults_are_reported_and_other_engines_stay_valid(shell: Shell, faults: list[Fault]) -> None:
    plan = {"param_records": 2000, "samples": 1, **faults[0].plan}
    engines = ",".join([*(fault.engine for fault in faults), "memory"])
    ended = shell.dyno("run", "records", "-e", engines, *small(**plan), "-o", shell.file)
    cells = shell.cells()
    measured = results.load(shell.file)

    for fault in faults:
        for phase, why in fault.rows.items():
            row = cells[fault.engine, phase]
            assert row["valid"] is (why is VALID), row["why"]
            if why is not VALID:
                assert re.fullmatch(why, row["why"]), row["why"]
                assert row["throughput"] is row["operations"] is row["latency_ns"]["p50"] is None
        attempts = [each for each in measured.attempts if measured.cells[each.cell].asked == fault.engine]
        assert [each.outcome for each in attempts] == list(fault.outcomes), fault.engine

    for phase in str(plan["phases"]).split(","):
        floors = {cell["engine"] for cell in cells.values() if cell["floor"]}
        assert "null" in floors
        for engine in ("memory", *floors):
            assert cells[engine, phase]["valid"], cells[engine, phase]["why"]
            assert not {"attempts", "errors"} & codes(cells[engine, phase])
        bulk = phase.startswith("insert-") or phase in ("update", "delete")
        assert cells["memory", phase]["operations"] == 1 if bulk else cells["memory", phase]["operations"] > 0

    assert ended.status == 1
    assert ended.err == f"Written to {shell.file}\n"
    assert shell.strays() == []
    assert shell.left() == []


def codes(cell: Mapping[str, Any]) -> set[str]:
    return {doubt["code"] for doubt in cell["doubts"]}


def run(shell: Shell, engine: str, **plan: object) -> int:
    chosen = {"samples": 1, "param_records": 2000, **plan}
    status = shell.dyno("run", "records", "-e", engine, *small(**chosen), "-o", shell.file).status
    assert shell.strays() == []
    assert shell.left() == []
    return status


@pytest.mark.claim("Every answer of a read is compared with the dataset")
def test_single_wrong_record_in_20000_reads_voids_row(shell: Shell) -> None:
    assert run(shell, "liar-wrong,memory", param_records=20_000) == 1
    cells = shell.cells()
    assert cells["memory", "rand-key"]["operations"] == 20_000
    liar = cells["liar-wrong", "rand-key"]
    assert not liar["valid"]
    assert re.fullmatch(rf"void: rand-key, record \d+: got {RECORD}, expected {RECORD}", liar["why"])


def test_failed_trials_are_retried_as_planned_and_exit_with_3(shell: Shell) -> None:
    engines = ("crasher", "liar-missing", "refuser", "raiser:every=1")
    assert run(shell, ",".join(engines), retries=3) == 3
    cells = shell.cells()
    assert not any(cells[engine, "rand-key"]["valid"] for engine in engines)
    assert [attempt["attempt"] for attempt in shell.attempts("crasher")] == [0, 1, 2, 3]


def test_crashed_trial_is_retried_and_carries_a_doubt(shell: Shell) -> None:
    shell.given["FAULTY_STATE"] = str(shell.home / "crashed")
    assert run(shell, "crash-once,memory") == 0
    first, second = shell.attempts("crash-once")
    assert (first["outcome"], first["attempt"], first["phase"]) == ("crash", 0, "rand-key")
    assert (second["outcome"], second["attempt"]) == ("ok", 1)
    # The stored output names the signal.
    assert "Segmentation fault" in first["output"]
    assert second["output"] is None
    cell = shell.cells()["crash-once", "rand-key"]
    assert cell["valid"]
    assert cell["samples"] == 1
    doubt = next(doubt for doubt in cell["doubts"] if doubt["code"] == "attempts")
    assert doubt["text"] == "1 of 2 attempts failed; the first: killed by SIGSEGV (in rand-key)"


@pytest.mark.claim("An engine's output does not reach the result")
def test_engine_output_reaches_neither_result_nor_terminal(shell: Shell) -> None:
    arguments = small(samples=1, param_records=2000)
    ended = shell.dyno("run", "records", "-e", "printer", *arguments, "-o", shell.file)
    assert ended.status == 0
    assert "event" not in ended.out + ended.err
    assert "printed" not in ended.out + ended.err + shell.file.read_text()
    (attempt,) = shell.attempts("printer")
    assert [sample["phase"] for sample in attempt["samples"]] == ["rand-key"]
    assert attempt["samples"][0]["operations"] == attempt["samples"][0]["checked"] == 2000


@pytest.mark.claim("Operations that raise are counted, but not as work")
def test_raising_operations_count_as_errors_not_work(shell: Shell) -> None:
    assert run(shell, "raiser") == 0
    (sample,) = shell.attempts("raiser")[0]["samples"]
    assert only(sample, "operations", "errors", "items", "checked") == (2000, 20, 1980, 1980)
    assert sample["first_error"] == "OSError: the disk is on strike"
    cell = shell.cells()["raiser", "rand-key"]
    doubt = next(doubt for doubt in cell["doubts"] if doubt["code"] == "errors")
    assert doubt["text"].startswith("20 of 2,000 operations failed; the first: OSError")


def only(sample: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(sample[name] for name in names)


@pytest.mark.claim("A crash, a hang or a lack of memory ends one trial and not the run")
def test_leaking_engine_is_stopped_near_memory_limit(shell: Shell) -> None:
    assert run(shell, "leaker,memory", memory=0.3, retries=0) == 1
    cells = shell.cells()
    assert cells["memory", "rand-key"]["valid"]
    assert cells["leaker", "rand-key"]["why"] == "out-of-memory in rand-key: used more than 0.30 GiB of memory"
    (attempt,) = shell.attempts("leaker")
    taken = attempt["resources"]["peak_anonymous_bytes"]
    # The engine leaks at most 1 GiB per second, and Dyno checks memory 20 times per second.
    assert 0.3 * GIB < taken < 1.5 * GIB


def test_detached_process_of_an_engine_is_killed(shell: Shell) -> None:
    run(shell, "forker:how=detach")


@pytest.mark.parametrize("when", ["start", "work"])
def test_client_death_is_reported_and_fails_the_row(shell: Shell, when: str) -> None:
    shell.given["FAULTY_CLIENT"] = when
    assert run(shell, "client-crasher,lmdb", clients=3, retries=0, timeout=8) == 1
    cells = shell.cells()
    assert cells["lmdb", "rand-key"]["valid"]
    assert "client 1 ended without a result" in cells["client-crasher", "rand-key"]["why"]


def test_unimportable_engine_is_named_and_others_still_run(shell: Shell) -> None:
    ended = shell.dyno("run", "records", "-e", "bad-attribute,memory", "-o", shell.file)
    assert ended.status == 2
    assert is_one_line(ended.err)
    assert ended.err.startswith("dyno: engine bad-attribute (faulty:NO_SUCH_NAME) can't be imported: AttributeError")
    assert not shell.file.exists()
    assert run(shell, "memory") == 0


def test_multiline_import_error_is_reported_in_one_line(shell: Shell) -> None:
    ended = shell.dyno("run", "records", "-e", "bad-import,memory", "-o", shell.file)
    assert ended.status == 2
    assert "engine bad-import (faulty_bad_import:ENGINE) can't be imported: ImportError: libfaulty" in ended.err
    assert is_one_line(ended.err)


def test_missing_module_is_refused_with_install_command(shell: Shell) -> None:
    ended = shell.dyno("run", "records", "-e", "absent,memory", "-o", shell.file)
    assert ended == (2, "", "dyno: engine absent needs dyno_no_such_module: dyno install absent\n")
    assert not shell.file.exists()


# -- answers that claim to equal everything ----------------------------------------------------------------------

CLAIMS = ("object", "dict", "string", "name", "number", "failure")


@pytest.mark.claim("Answers are compared by exact type; their own comparison methods are never called")
def test_answers_that_claim_to_equal_everything_are_void(shell: Shell) -> None:
    shell.plugins = [TESTS / "plugins" / "vain"]
    phases = ("rand-key", "rand-index", "scan", "update", "mixed")
    engines = ",".join(f"vain:how={how}" for how in CLAIMS)
    flags = small(samples=1, phases=",".join(phases), param_txn=10)
    status, _, err = shell.dyno("run", "records", "-e", engines, *flags, "-o", shell.file)
    # Nothing could be measured.
    assert status == 3, err
    rows = {key: row for key, row in shell.cells().items() if key[0].startswith("vain")}
    assert len(rows) == len(CLAIMS) * len(phases)
    assert [(key, row["why"]) for key, row in rows.items() if not str(row["why"]).startswith("void: ")] == []


@pytest.mark.claim("Answers are compared by exact type; their own comparison methods are never called")
@pytest.mark.parametrize("packer", ["plain", "zlib"])
def test_keys_that_claim_to_equal_everything_are_void(shell: Shell, packer: str) -> None:
    shell.plugins = [TESTS / "plugins" / "vain"]
    flags = [
        word for p in (f"packer={packer}", "batch=1", "records=60", "gets=20", "iterations=1") for word in ("-p", p)
    ]
    status, _, err = shell.dyno("run", "compression", "-e", "vain-keys", *flags, "--samples", 1, "-o", shell.file)
    assert status == 1, err
    rows = [row for (engine, _), row in shell.cells().items() if engine == "vain-keys"]
    assert [row["phase"] for row in rows if "which are not the keys of" in str(row["why"])] == ["insert"]
