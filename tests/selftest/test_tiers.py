"""Tests the command `dyno selftest --tiers`. tests/selftest/test_durability.py proves the tiers of real engines."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Mapping
from typing import Any

import pytest
from shell import TESTS, Shell, is_one_line, wait_for

from dyno.contracts.model import Tier
from dyno.report.outcomes import TIERS
from dyno.selftest import flushes

pytestmark = pytest.mark.usefixtures("processes")

NOT_TRACED = ("commits", "flushed", "written", "flushes", "writes")
PLUGIN = TESTS / "plugins" / "forgetful"
Proofs = Mapping[str, Mapping[str, Any]]
KEYS = {"engine", "tier", "verdict", "why", "settings", "version", *NOT_TRACED, "mapped", "unseen"}

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None and os.environ.get("CI") != "true", reason="strace is not installed"
)


@pytest.fixture
def shell(shell: Shell) -> Shell:
    shell.plugins = [PLUGIN]
    return shell


def tiers(shell: Shell, *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """The exit status, and the proof of each tier."""
    status, out, err = shell.dyno("selftest", "--tiers", "--json", *arguments)
    assert err == "" and shell.left() == []
    told = json.loads(out)
    assert set(told) == {"tiers"} and all(set(each) == KEYS for each in told["tiers"])
    return status, told["tiers"]


def without_strace(shell: Shell, instead: str | None = None) -> None:
    """Sets a PATH without strace, or with a replacement script."""
    place = shell.home / "bin"
    place.mkdir()
    if instead is not None:
        (place / "strace").write_text(f"#!/bin/sh\n{instead}\n")
        (place / "strace").chmod(0o755)
    shell.given["PATH"] = str(place)


# -- traced engines -------------------------------------------------------------------------------------------


TRACED = (
    "sqlite",
    *(f"forgetful:how={how}" for how in ("written", "raises", "dies", "leaves", "flushed")),
    *(f"forgetful-untested:how={how}" for how in ("flushed", "written")),
)


@pytest.fixture(scope="module")
def proofs(shared_shell: Shell) -> Proofs:
    """The proofs of tier power of TRACED by engine, from one command."""
    shared_shell.plugins = [PLUGIN]
    status, found = tiers(shared_shell, "-e", ",".join(TRACED), "--tier", "power")
    assert status == 1
    assert [each["engine"] for each in found] == list(TRACED)
    return {each["engine"]: each for each in found}


@needs_strace
def test_proof_shows_call_counts_settings_and_version(proofs: Proofs) -> None:
    found = proofs["sqlite"]
    assert found["version"].startswith("SQLite 3.")
    assert {name: found[name] for name in ("engine", "tier", "verdict", "why", "settings")} == {
        "engine": "sqlite",
        "tier": "power",
        "verdict": "proven",
        "why": "",
        "settings": {"journal_mode": "wal", "synchronous": "full"},
    }
    assert (found["commits"], found["flushed"], found["written"]) == (100, 100, 100)
    assert found["flushes"]["fdatasync"] >= 100 and found["writes"]["pwrite64"] >= 100


@needs_strace
@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("raises", "it ended with status 1: AttributeError: 'Log' object has no attribute 'nothing'"),
        ("dies", "it ended with status -9"),
        ("leaves", "it ended with status 0 in the middle of its work"),
    ],
)
def test_failing_engine_is_reported_and_others_continue(proofs: Proofs, how: str, why: str) -> None:
    found = proofs[f"forgetful:how={how}"]
    assert found["verdict"] == "failed" and proofs["forgetful:how=flushed"]["verdict"] == "proven"
    assert found["why"].startswith(why) and "\n" not in found["why"]
    assert all(found[name] is None for name in (*NOT_TRACED, "version"))


@needs_strace
def test_untested_engine_is_at_best_declared(proofs: Proofs) -> None:
    found = proofs["forgetful-untested:how=flushed"]
    assert (found["verdict"], found["why"], found["flushed"]) == ("declared, not proven", "nobody has it", 100)
    assert proofs["forgetful-untested:how=written"]["verdict"] == "broken"


@needs_strace
def test_the_table_and_the_markdown_say_the_same(shell: Shell, proofs: Proofs) -> None:
    asked = ("forgetful:how=written", "forgetful:how=raises")
    cells = ["forgetful:how=written", "power", "how=written", "none", "0 of 100", "write 100", "100 of 100"]
    cells.append("broken: 100 of 100 commits were acknowledged before they were flushed")
    failure = "failed: it ended with status 1: AttributeError: 'Log' object has no attribute 'nothing'"
    status, out, err = shell.dyno("selftest", "--tiers", "-e", ",".join(asked), "--tier", "power")
    assert (status, err) == (1, "")
    row = next(line for line in out.splitlines() if line.startswith("forgetful:"))
    assert [cell for cell in map(str.strip, row.split("  ")) if cell] == cells
    assert failure in out and out.endswith("forgetful: forgets\n1 broken, 1 failed\n")
    markdown = TIERS.markdown([proofs[engine] for engine in asked])
    row = next(line for line in markdown.splitlines() if line.startswith("| forgetful:"))
    assert [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in row.strip("| ").split("|")] == cells
    assert failure in markdown and markdown.endswith("- forgetful: forgets\n\n1 broken, 1 failed.\n")


@needs_strace
def test_a_hang_is_a_failure(shell: Shell) -> None:
    shell.plugins = [*shell.plugins, TESTS / "selftest" / "spoiled"]
    shell.given["DYNO_CONSTANTS"] = json.dumps({"dyno.selftest.flushes.TIMEOUT_SECONDS": 2})
    status, (found,) = tiers(shell, "-e", "forgetful:how=hangs", "--tier", "power")
    assert (status, found["verdict"], found["why"]) == (1, "failed", "not done after 2 s")
    assert shell.strays() == []


@needs_strace
def test_proven_or_refused_tiers_exit_with_zero(shell: Shell) -> None:
    rows = "forgetful:how=refuses+tier=power,forgetful:how=written+tier=process,memory"
    status, found = tiers(shell, "-e", rows)
    assert status == 0
    assert [(each["verdict"], each["why"]) for each in found] == [
        ("declared, not proven", "it does not feel like it"),
        ("proven", ""),
        ("nothing promised", ""),
    ]


# -- engines that can't be traced -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instead", "why"),
    [
        (None, "strace is not installed: apt-get install strace"),
        ('echo "strace: ptrace(PTRACE_TRACEME): Operation not permitted" >&2; exit 1',
         "strace may not trace here: ptrace(PTRACE_TRACEME): Operation not permitted"),
        ("exit 3", "strace may not trace here: it ended with status 3"),
    ],
)  # fmt: skip
def test_tier_without_a_trace_is_only_declared(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, instead: str | None, why: str
) -> None:
    without_strace(shell, instead)
    monkeypatch.setenv("PATH", shell.given["PATH"])
    (found,) = (proof.data() for proof in flushes.proofs(flushes.claims(["sqlite"], "power"), shell.home))
    assert (found["verdict"], found["why"]) == ("declared, not proven", why)
    assert all(found[name] is None for name in (*NOT_TRACED, "version"))
    # An engine that did not run shows its declared settings.
    assert found["settings"] == {"journal_mode": "wal", "synchronous": "full"}


def test_default_lists_every_tier_of_every_engine(shell: Shell) -> None:
    without_strace(shell)
    _, found = tiers(shell)
    told = {(each["engine"], each["tier"]): each for each in found}
    assert len(told) == len(found)
    assert {("lmdb", "power"), ("sqlite", "volatile"), ("forgetful-elsewhere", "process")} <= set(told)
    assert (
        told["forgetful-elsewhere", "process"]["why"] == "needs dyno_no_such_module: dyno install forgetful-elsewhere"
    )
    assert {each["verdict"] for each in found} == {"declared, not proven"}
    # Null engines promise nothing, and some suites prove no tiers.
    assert not {"null", "nullkv", "synthetic"} & {each["engine"] for each in found}
    assert {tier for _, tier in told} == {"volatile", "process", "power"}
    assert {claim.tier for claim in flushes.claims(tier="power")} == {Tier.POWER}


def test_only_tiers_possible_with_the_options_are_claimed(shell: Shell) -> None:
    without_strace(shell)
    _, found = tiers(shell, "-e", "sqlite:journal_mode=memory")
    assert [each["tier"] for each in found] == ["volatile"]
    assert "| sqlite:" in shell.dyno("selftest", "--tiers", "-e", "sqlite:journal_mode=memory", "--markdown").out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--tiers -e lmbd", "engine lmbd is not known; did you mean lmdb?"),
        ("--tiers -e synthetic", "engine synthetic has no port of a suite that proves tiers; "),
        ("--tiers -e memory --tier power", "engine memory can't give tier power; it gives: volatile"),
        (
            "--tiers -e sqlite:journal_mode=memory --tier power",
            "engine sqlite: journal_mode=memory can't give tier power",
        ),
        ("--tiers --tier strong", "tier strong is not known; there are: power, process, volatile"),
        ("--tiers --only clock", "--only and --tiers exclude each other"),
        ("--tiers --json --markdown", "--json and --markdown exclude each other"),
        ("-e sqlite", "-e needs --tiers"),
        ("--tier power", "--tier needs --tiers"),
        ("--markdown", "--markdown needs --tiers"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(shell: Shell, asked: str, said: str) -> None:
    shell.plugins = []
    status, out, err = shell.run_here("selftest", *asked.split())
    assert (status, out) == (2, "") and is_one_line(err)
    assert err.startswith(f"dyno: {said}")


@needs_strace
def test_interrupt_leaves_no_process_or_directory(shell: Shell) -> None:
    def commits() -> bool:
        return any((place / "home").exists() for place in shell.work.glob("*/*"))

    with shell.started("selftest", "--tiers", "-e", "forgetful:how=slow", "--tier", "power") as process:
        assert wait_for(lambda: commits() and len(shell.alive()) == 3), "the command, strace and the committer"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, "", "dyno: interrupted\n")
        assert shell.strays() == []
        assert shell.left() == []


@needs_strace
def test_a_killed_command_leaves_no_process(shell: Shell) -> None:
    with shell.started("selftest", "--tiers", "-e", "forgetful:how=slow", "--tier", "power") as process:
        assert wait_for(lambda: len(shell.alive()) == 3), "the command, strace and the committer"
        process.kill()
        assert shell.strays() == []


# -- the list -------------------------------------------------------------------------------------------------


def test_the_list_marks_tiers_that_are_only_declared(shell: Shell) -> None:
    status, out, _ = shell.dyno("list", "engines")
    assert status == 0
    lines = {line.partition(" ")[0]: line for line in out.splitlines()}
    assert "volatile*, process†, power† " in lines["forgetful-untested"]
    assert "volatile*, process, power " in lines["forgetful"]
    foot = "† declared, not proven. `dyno selftest --tiers` proves tiers, where it can.\n"
    assert foot in out
    shell.plugins = []
    out = shell.dyno("list", "engines").out
    marked = [line for line in out.splitlines() if "untested: " in line]
    assert (foot in out) is bool(marked)
