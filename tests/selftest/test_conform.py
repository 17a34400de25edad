"""`dyno conform`: each check of an engine's ports has an outcome and a reason, which decide the exit status. A crash,
a timeout or too much memory fails only the current check."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shell import FAULTY, TESTS, Shell

from dyno import registry
from dyno.selftest import conformance
from dyno.selftest.conformance import FAIL, GAP, PASS, SKIPPED
from dyno.suites.records.conformance import CHECKS as RECORDS

pytestmark = pytest.mark.usefixtures("processes")


def checks(shell: Shell, *words: str, status: int) -> list[dict[str, Any]]:
    ended = shell.dyno("conform", *words, "--json")
    assert ended.status == status, ended
    results: list[dict[str, Any]] = json.loads(ended.out)["checks"]
    return results


def outcomes(found: list[dict[str, Any]], suite: str) -> dict[str, str]:
    return {check["check"]: check["outcome"] for check in found if check["suite"] == suite}


def test_memory_engine_passes_every_check(shell: Shell) -> None:
    results = checks(shell, "memory", "--tier", "volatile", status=0)
    assert {check["suite"] for check in results} >= {"", "records", "compression"}
    assert outcomes(results, "records") == dict.fromkeys([*RECORDS, "engine"], PASS)
    assert all(check["guards"] for check in results)


def test_fio_passes_the_volume_checks(shell: Shell) -> None:
    assert {check["outcome"] for check in checks(shell, "fio", status=0)} == {PASS}


def test_gap_is_shown_with_kind_and_reason(shell: Shell) -> None:
    results = checks(shell, "numexpr:threads=1", status=0)
    (gap,) = (check for check in results if check["outcome"] == GAP)
    (declared,) = registry.engine("numexpr").gaps
    assert (gap["check"], gap["kind"], gap["reason"]) == declared


def test_wrong_answers_fail_their_checks(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    results = checks(shell, "liar-missing:early=yes+every=7", status=1)
    failed = [check for check in results if check["outcome"] == FAIL]
    assert {"delete", "model"} <= {check["check"] for check in failed}
    assert all(check["reason"].startswith("Wrong: ") for check in failed)
    assert outcomes(results, "")["absence"] == PASS


def test_suite_without_checks_is_skipped_with_reason(shell: Shell) -> None:
    shell.plugins = [TESTS / "plugins" / "outsider"]
    brief, engine = checks(shell, "timed", status=0)
    assert (brief["outcome"], engine["outcome"]) == (SKIPPED, PASS)
    assert "suite outsider has no checks" in brief["reason"] and "CHECKS" in brief["reason"]


def test_crash_fails_one_check_and_other_suites_continue(shell: Shell) -> None:
    shell.plugins = [FAULTY]
    results = checks(shell, "crasher:early=yes", status=1)
    own = outcomes(results, "")
    (crashed,) = (check for check in results if check["outcome"] == FAIL)
    assert "SIGSEGV" in crashed["reason"]
    later = list(own)[list(own).index(crashed["check"]) + 1 :]
    assert later and {own[name] for name in later} == {SKIPPED}
    assert set(outcomes(results, "records").values()) == {PASS}
    printed = shell.dyno("conform", "crasher:early=yes").out
    assert printed.count("SIGSEGV") == 1 and "0 gaps, 1 failed" in printed.splitlines()[-1]
    assert printed.endswith(" not run\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sqllite"], "did you mean sqlite?"),
        (["sqlite:no_such=1"], "option no_such is not known"),
        (["sqlite", "--tier", "sturdy"], "tier sturdy is not known"),
        (["memory", "--tier", "power"], "it gives: volatile"),
        (["null"], "is a null engine"),
        (["absent"], "dyno_no_such_module"),
    ],
)
def test_a_usage_error_is_one_line(shell: Shell, words: list[str], said: str) -> None:
    if words == ["absent"]:
        shell.plugins = [FAULTY]
    ended = shell.run_here("conform", *words)
    assert ended.status == 2 and said in ended.err and ended.err.count("\n") == 1


def test_engine_unable_to_start_skips_all_checks(shell: Shell) -> None:
    """The path of the server's socket would exceed the limit for socket paths."""
    shell.work = shell.work / ("long-" * 20)
    results = checks(shell, "redis", status=3)
    assert {check["outcome"] for check in results} == {SKIPPED}
    assert "--work" in results[0]["reason"]


def test_declared_gap_that_passes_is_a_failure() -> None:
    spec = registry.engine("sqlite")
    (gap,) = spec.gaps
    outcome, reason, _ = conformance._judge_outcome(gap.check, {gap.check: None}, "", gap)
    assert outcome == FAIL and "remove the Gap" in reason


def test_a_port_without_close_can_be_checked() -> None:
    port = object()
    with conformance._close_after(port) as opened:
        assert opened is port


def test_exceeding_memory_limit_is_reported_per_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(conformance, "default_limit", lambda: 1 << 20)
    results = list(conformance.results(registry.engine("memory"), {}, None, tmp_path))
    assert {check.outcome for check in results} <= {PASS, FAIL, SKIPPED}
    assert any("MiB of memory" in check.reason for check in results)
