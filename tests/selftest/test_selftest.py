"""Tests that each check of `dyno selftest` fails if the part that it guards is broken, and passes otherwise.

Runs the command with Dyno broken from outside by `spoiled/sitecustomize.py`, and with smaller constants where they
prove as much.
"""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, of_rates
from shell import DISK, Ended, Shell, is_one_line, wait_for

from dyno.host.filesystem import filesystem
from dyno.results import Run
from dyno.selftest import CheckResult, SelfCheck, checks, run_checks, trials

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.serial]

SPOILED = Path(__file__).parent / "spoiled"
NAMES = ("clock", "latency", "cold", "awake", "client", "stall", "same", "slower")
TRIES = 3
MEMORY = Path("/dev/shm")

QUICK = {
    "dyno.selftest.machine.DRIFT_SECONDS": 0.2,
    "dyno.selftest.machine.EXCHANGES": 1_000,
    "dyno.selftest.machine.OPERATIONS": 3_000,
    "dyno.selftest.machine.BYTES": 4 << 20,
    "dyno.selftest.trials.SECONDS": 2,
    "dyno.selftest.trials.STALL_MS": 200,
    "dyno.selftest.trials.AFTER": 600,
    "dyno.selftest.trials.BUSY_TRIALS": 1,
}
# Only the busiest trial counts, since other programs disturb the others.
ROUGH = {"dyno.selftest.trials.BUSY_TRIALS": 3, "dyno.stats.doubts.CLIENT_PERCENT": 12.0}
# With the simulated clock of `steady`, the default constants and few operations are enough.
STEADY = {
    "dyno.selftest.trials.BLOCKS": 3,
    "dyno.selftest.trials.MOST_RUNS": 1,
    "dyno.selftest.trials.OPERATIONS": 2_000,
}


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.plugins = [SPOILED]
    return shell


def spoil(shell: Shell, *what: str, **constants: Any) -> None:
    shell.given["DYNO_SPOILT"] = ",".join(what)
    shell.given["DYNO_CONSTANTS"] = json.dumps({**QUICK, **constants})


def ended(shell: Shell, *arguments: object) -> Ended:
    """Runs a self-test, which must leave nothing behind and print only its result."""
    done = shell.dyno("selftest", *arguments)
    assert done.err == "", "without a terminal there is no progress to tell"
    assert shell.left() == []
    assert [path for path in shell.home.iterdir() if path not in shell.work.parents] == []
    return done


def verdicts(shell: Shell, only: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the verdicts by name in printed order."""
    status, out, _ = ended(shell, "--only", only, "--json")
    told = json.loads(out, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert set(told) == {"checks"}
    for each in told["checks"]:
        assert set(each) == {"name", "guards", "passed", "text", "figures"}
        assert each["passed"] in (True, False, None)
        assert all(isinstance(each[name], str) and each[name] for name in ("name", "guards", "text"))
        assert isinstance(each["figures"], dict)
        assert "Error: " not in each["text"], "judged, and not by an accident"
    failed = any(each["passed"] is False for each in told["checks"])
    assert status == (1 if failed else 0)
    return status, {each["name"]: each for each in told["checks"]}


# -- intact Dyno ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Mapping[str, Any]]]:
    """Result of each check on an intact Dyno. Checks that other load disturbed are repeated. The checks `same` and
    `slower` have a simulated clock."""
    home = tmp_path_factory.mktemp("selftest")
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=DISK if DISK.is_dir() else home) as disk:
        shell = Shell(home, Path(disk) / "work", [SPOILED])
        spoil(shell, **ROUGH)
        found: dict[str, dict[str, Any]] = {}
        for _ in range(TRIES):
            wanted = [name for name in NAMES[:-2] if name not in found or not found[name]["passed"]]
            if wanted:
                found |= verdicts(shell, ",".join(wanted))[1]
        spoil(shell, "steady", **STEADY)
        yield found | verdicts(shell, ",".join(NAMES[-2:]))[1]


@pytest.mark.claim("Each check of dyno selftest fails when what it guards is broken")
@pytest.mark.parametrize("name", NAMES)
def test_a_check_passes_when_nothing_is_broken(sound: Mapping[str, Mapping[str, Any]], name: str) -> None:
    if name in ("cold", "awake") and sound[name]["passed"] is None:
        pytest.skip(sound[name]["text"])
    assert sound[name]["passed"], sound[name]


def test_checks_are_complete_and_guard_distinct_parts(sound: Mapping[str, Mapping[str, Any]]) -> None:
    assert tuple(check.name for check in checks()) == NAMES
    assert tuple(sound) == NAMES, "in the order in which they are declared"
    assert len({each["guards"] for each in sound.values()}) == len(NAMES)


# -- one broken part ------------------------------------------------------------------------------------------


@pytest.mark.claim("Each check of dyno selftest fails when what it guards is broken")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("clock", "offset_clock"),
        ("clock", "fast_clock"),
        ("latency", "tail_is_dropped"),
        ("latency", "tail_is_halved"),
        ("latency", "far_tail_is_shortened"),
        ("latency", "nothing_is_recorded"),
        ("latency", "bookkeeping_is_in_spans"),
        ("awake", "usual_priority"),
        ("awake", "keepers_end"),
        ("client", "cpu_time_is_lost"),
        ("client", "every_client_is_doubted"),
        ("stall", "omission_is_coordinated"),
    ],
)
def test_check_fails_when_its_guarded_part_is_broken(shell: Shell, name: str, what: str) -> None:
    spoil(shell, what)
    status, found = verdicts(shell, name)
    assert (status, found[name]["passed"]) == (1, False), found


@pytest.mark.claim("Each check of dyno selftest fails when what it guards is broken")
@pytest.mark.parametrize("what", ["nothing_is_evicted", "a_little_stays", "nothing_is_resident", "nothing_is_read"])
def test_cold_check_fails_if_not_cold_or_unproven(shell: Shell, what: str) -> None:
    if filesystem(shell.work.parent)["ram_backed"]:
        pytest.skip("there is no disk here")
    spoil(shell, what)
    status, found = verdicts(shell, "cold")
    assert (status, found["cold"]["passed"]) == (1, False), found


def test_cold_check_has_no_verdict_in_memory(shell: Shell) -> None:
    if not MEMORY.is_dir() or not filesystem(MEMORY)["ram_backed"]:
        pytest.skip(f"{MEMORY} is not in memory")
    spoil(shell)
    with tempfile.TemporaryDirectory(prefix="dyno-tests-", dir=MEMORY) as place:
        status, out, _ = ended(shell, "--only", "cold", "--work", place)
        assert list(Path(place).iterdir()) == []
    assert status == 0
    assert out.startswith("none  cold ")
    assert out.endswith("0 passed, 0 failed, 1 can't be run on this machine\n")


@pytest.mark.claim("Each check of dyno selftest fails when what it guards is broken")
def test_slower_check_fails_if_both_rows_do_equal_work(shell: Shell) -> None:
    spoil(shell, "steady", "slower_is_ignored", **STEADY)
    status, found = verdicts(shell, "slower")
    assert (status, found["slower"]["passed"]) == (1, False), found


@pytest.mark.claim("Each check of dyno selftest fails when what it guards is broken")
@pytest.mark.parametrize(
    ("rates", "same", "slower"),
    [
        ([1000, 1000, 1000], True, False),
        ([909, 909, 909], False, True),
        ([800, 800, 800], False, False),
        # A busy machine: neither check can tell.
        ([800, 1200, 800], None, None),
    ],
)
def test_verdict_follows_from_the_measured_rates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rates: Sequence[float], same: bool | None, slower: bool | None
) -> None:
    def measured(work: Path, name: str, engines: Sequence[str], **options: Any) -> Run:
        base, other = ({trials.PHASE: values} for values in ([1000] * 3, rates))
        return of_rates((a_cell(engines[0]), base), (a_cell(engines[1]), other), phases=[trials.PHASE])

    monkeypatch.setattr(trials, "run_trials", measured)
    results = (trials.check_equal_engines(tmp_path), trials.slower(tmp_path))
    assert [result.passed for result in results] == [same, slower]
    assert all(("too busy" in result.text) == (result.passed is None) for result in results)


def test_rows_show_the_planted_ratio(sound: Mapping[str, Mapping[str, Any]]) -> None:
    # 300 or 330 units of 10 ns each, and two clock readings of 1 ns each.
    assert sound["same"]["figures"]["ratio"] == pytest.approx(1)
    assert sound["slower"]["figures"]["ratio"] == pytest.approx(3_002 / 3_302, rel=1e-4)


def test_raising_check_fails_and_the_next_runs(tmp_path: Path) -> None:
    def raises(work: Path) -> CheckResult:
        raise KeyError("gone")

    wanted = [
        SelfCheck("first", "nothing", raises),
        SelfCheck("second", "nothing", lambda work: CheckResult(True, "fine")),
    ]
    found = [verdict for _, verdict in run_checks(wanted, tmp_path)]
    assert found == [CheckResult(False, "KeyError: 'gone'"), CheckResult(True, "fine")]


# -- the command ----------------------------------------------------------------------------------------------


def test_verdicts_are_printed_in_declared_order_with_findings(shell: Shell) -> None:
    spoil(shell, "fast_clock")
    status, out, _ = ended(shell, "--only", "cold, clock")
    assert status == 1
    lines = out.splitlines()
    assert lines[0].startswith("FAIL  clock ")
    assert "ran backwards" in lines[1]
    assert lines[2].startswith(("pass  cold ", "none  cold "))
    assert lines[-1].startswith(("1 passed, 1 failed", "0 passed, 1 failed"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("stal", "dyno: check stal is not known; did you mean stall?\n"),
        ("clock,slow", "dyno: check slow is not known; did you mean slower?\n"),
        ("xyzzy", f"dyno: check xyzzy is not known; there are: {', '.join(sorted(NAMES))}\n"),
    ],
)
def test_unknown_check_error_suggests_known_ones(shell: Shell, asked: str, said: str) -> None:
    shell.plugins = []
    done = shell.run_here("selftest", "--only", asked)
    assert done == (2, "", said)
    assert is_one_line(done.err)
    assert shell.left() == []


def waits(pid: int) -> int:
    """Number of times that a process gave up its core, as an open loop does before most operations."""
    try:
        return int(Path(f"/proc/{pid}/status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def test_interrupt_leaves_no_process_or_directory(shell: Shell) -> None:
    with shell.started("selftest", "--only", "stall") as process:

        def begun() -> bool:
            """Whether the command, the fork server and a trial are running, and the trial waits for its schedule."""
            return len(alive := shell.alive()) == 3 and any(waits(pid) > 300 for pid in alive)

        assert wait_for(begun), "no open loop has begun"
        assert shell.left() != []
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, "", "dyno: interrupted\n")
        assert shell.strays() == []
        assert shell.left() == []
