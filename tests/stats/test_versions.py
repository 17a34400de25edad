"""Tests changes between versions: in simulated series whose changes are known, and in run files with versions."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from madeup import a_cell, of_rates, reads, versions

from dyno.contracts.model import VERSION, Fact, UsageError
from dyno.report.tables.versions import describe_series
from dyno.results import Run
from dyno.stats.metric import MEMORY
from dyno.stats.versions import SpeedSteps, Step, compare_versions, make_versions_family

RELEASES = ("1.0.0", "1.1.3", "1.2.2", "1.3.2", "1.4.0", "1.5.0", "1.10.0")
NOISE = 0.03
BLOCKS = 8


def draw(speeds: Sequence[float], seed: int, noise: float = NOISE) -> list[Mapping[int, float]]:
    """Speeds by block of rows with these true speeds, on a machine that drifts from block to block."""
    source = random.Random(f"{seed} {len(speeds)}")
    drift = [math.exp(source.gauss(0, 0.05)) for _ in range(BLOCKS)]
    return [
        {block: 1e6 * speed * each * math.exp(source.gauss(0, noise)) for block, each in enumerate(drift)}
        for speed in speeds
    ]


def find(speeds: Sequence[float], seed: int, noise: float = NOISE) -> list[Step]:
    rows = draw(speeds, seed, noise)
    return SpeedSteps(rows, make_versions_family([rows])).find()


def a_run(speeds: Mapping[str, float], seed: int = 1, **options: str) -> Run:
    """A run of versions with these true speeds in the phase `read`."""
    drawn = draw([*speeds.values()], seed)
    rates = {version: [*of.values()] for version, of in zip(speeds, drawn, strict=True)}
    return of_rates(*versions(rates, **options), phases=["read"])


def with_answers(run: Run, groups: Mapping[str, int]) -> Run:
    """The run whose engines, by their row, are in these groups of equal answers."""
    by_cell = [groups[str(cell.options[VERSION])] for cell in run.cells]
    attempts = []
    for attempt in run.attempts:
        group = by_cell[attempt.cell]
        facts: dict[str, Fact] = {
            "answers_book": "b",
            "answers_group": group,
            "answers_differ": "row 3" if group else "",
        }
        attempts.append(replace(attempt, samples=tuple(replace(each, facts=facts) for each in attempt.samples)))
    return replace(run, attempts=tuple(attempts))


# -- simulated series -----------------------------------------------------------------------------------------


@pytest.mark.claim("Of 100 runs of versions, at most one states a change that isn't there")
@pytest.mark.parametrize("number", [5, 12, 16])
def test_equal_versions_have_no_change(number: int) -> None:
    # By chance, three of 100 do in 2 % of cases at 1 %.
    assert sum(bool(find([1.0] * number, seed)) for seed in range(100)) <= 2


@pytest.mark.parametrize("number", [5, 12, 16])
def test_planted_step_is_found_at_its_version(number: int) -> None:
    found = []
    for seed in range(40):
        at = random.Random(seed).randrange(1, number)
        found.append([step.at for step in find([1.0] * at + [0.9] * (number - at), seed)] == [at])
    assert sum(found) >= 34


def test_stated_stretch_contains_a_change() -> None:
    # With this noise, neighbours can't be told apart; groups of them can.
    stretches = [step for seed in range(40) for step in find([1.0] * 6 + [0.9] * 6, seed, noise=0.06)]
    wide = [step for step in stretches if step.last > step.first + 1]
    assert len(wide) > 20
    assert all(step.first < 6 <= step.last and step.verdict.kind == "slower" for step in stretches)
    assert sum(step.at == 6 for step in wide) > len(wide) / 2


def test_change_that_is_undone_is_found_twice() -> None:
    steps = find([1.0] * 4 + [0.8] + [1.0] * 5, 1)
    assert [(step.first, step.at, step.verdict.kind) for step in steps] == [(3, 4, "slower"), (4, 5, "faster")]


def test_distant_versions_show_a_change_that_no_groups_show() -> None:
    (step,) = find([1.0, 0.96, 0.92], 12)
    assert (step.first, step.last, step.verdict.kind) == (0, 2, "slower")


def test_gradual_change_has_stretches_in_order() -> None:
    steps = find([0.96**at for at in range(12)], 1)
    assert len(steps) > 1 and {step.verdict.kind for step in steps} == {"slower"}
    places = [place for step in steps for place in (step.first, step.last)]
    assert places == sorted(places)


def test_changes_are_at_most_as_many_as_there_are() -> None:
    for seed in range(20):
        assert len(find([1.0] * 5 + [0.9] * 5 + [1.0] * 6, seed, noise=0.05)) <= 2


# -- run files ------------------------------------------------------------------------------------------------


def test_versions_are_in_release_order() -> None:
    (series,) = compare_versions(
        a_run(dict.fromkeys(("1.10.0", "1.9.1", "nightly", "1.2.0rc1", "1.2.0"), 1.0))
    ).series
    assert series.versions == ("1.2.0rc1", "1.2.0", "1.9.1", "1.10.0", "nightly")
    assert series.base == 0 and series.verdicts[0] is None


def test_options_separate_series_and_versions_do_not() -> None:
    one = a_run(dict.fromkeys(RELEASES, 1.0))
    other = a_run(dict.fromkeys(RELEASES[:2], 1.0), threads="1")
    attempts = [replace(each, cell=each.cell + len(one.cells)) for each in other.attempts]
    run = replace(one, cells=(*one.cells, *other.cells), attempts=(*one.attempts, *attempts))
    assert {each.name: each.versions for each in compare_versions(run).series} == {
        "lmdb": RELEASES,
        "lmdb:threads=1": RELEASES[:2],
    }


def test_sentence_says_whether_a_change_stayed() -> None:
    def sentence(*speeds: float) -> str:
        (series,) = compare_versions(a_run(dict(zip(RELEASES, speeds, strict=True)))).series
        return describe_series(series, ())

    stayed = sentence(1, 1, 1, 1, 0.7, 0.7, 0.7)
    assert stayed.startswith("lmdb (process), read: 1.4.0 is slower than 1.3.2 by at least ")
    assert stayed.endswith(" %, and it stayed so.")
    undone = sentence(1, 1, 1, 0.7, 1, 1, 1)
    assert "1.3.2 is slower than 1.2.2 by at least " in undone and ", until 1.4.0, which is faster by " in undone
    assert sentence(1, 1, 1, 1, 1, 1, 0.4).endswith("1.10.0 is slower than 1.5.0 by a factor of at least 2.3.")
    assert sentence(1, 1, 1, 1, 1, 1, 1).startswith("lmdb (process), read: no change from 1.0.0 to 1.10.0 ")


def test_quiet_series_rules_out_changes() -> None:
    rows = versions(dict.fromkeys(RELEASES, [1e6, 1.01e6, 0.99e6] * 3))
    (series,) = compare_versions(of_rates(*rows, phases=["read"])).series
    assert series.most.kind == "alike"
    assert describe_series(series, ()) == "lmdb (process), read: no change from 1.0.0 to 1.10.0 larger than 0 %."


def test_memory_of_versions_is_worded_as_a_need() -> None:
    run = a_run(dict.fromkeys(RELEASES, 1.0))
    cells = {at: RELEASES.index(str(cell.options[VERSION])) for at, cell in enumerate(run.cells)}
    attempts = [
        replace(
            each,
            samples=tuple(
                replace(sample, client_peak_bytes=(100 + each.block) << (20 + (cells[each.cell] > 3)))
                for sample in each.samples
            ),
        )
        for each in run.attempts
    ]
    (series,) = compare_versions(replace(run, attempts=tuple(attempts)), MEMORY).series
    assert "1.4.0 needs at least 2.0 times as much memory as 1.3.2" in describe_series(series, ())


def test_baseline_may_be_a_version_or_a_row() -> None:
    run = a_run(dict.fromkeys(RELEASES, 1.0))
    for name in ("1.3.2", "lmdb@1.3.2"):
        (series,) = compare_versions(run, baseline=name).series
        assert series.base == 3 and series.verdicts[3] is None
    with pytest.raises(UsageError, match=r"version 1.9 is not known"):
        compare_versions(run, baseline="1.9")


def test_run_without_two_versions_is_refused() -> None:
    for run in (reads(lmdb=[1.0] * 3, sqlite=[2.0] * 3), a_run({"1.0.0": 1.0})):
        with pytest.raises(UsageError, match="no engine has two versions"):
            compare_versions(run)


def test_rows_without_version_or_number_are_listed() -> None:
    run = a_run(dict.fromkeys(RELEASES, 1.0))
    bare = a_cell("lmdb"), a_cell("sqlite")
    run = replace(run, cells=(*run.cells, *bare))
    attempts = [
        replace(each, samples=tuple(replace(s, void="got 1, expected 2") for s in each.samples))
        if each.cell == 2
        else each
        for each in run.attempts
    ]
    of = compare_versions(replace(run, attempts=tuple(attempts)))
    assert of.series[0].versions == (*RELEASES[:2], *RELEASES[3:])
    assert [(row.cell.options[VERSION], row.why) for row in of.without] == [("1.2.2", "void: got 1, expected 2")]
    assert [cell.asked for cell in of.unnamed] == ["lmdb"]


def test_changed_answer_names_its_version() -> None:
    run = with_answers(a_run(dict.fromkeys(RELEASES[::-1], 1.0)), {each: each in RELEASES[5:] for each in RELEASES})
    (answer,) = compare_versions(run).changed_answers
    assert (answer.before, answer.version, answer.phase) == ("1.4.0", "1.5.0", "read")
    assert answer.difference == "row 3"
    equal = with_answers(run, dict.fromkeys(RELEASES, 0))
    assert compare_versions(equal).changed_answers == ()


def test_version_that_disagrees_with_itself_changes_no_answer() -> None:
    run = with_answers(a_run(dict.fromkeys(RELEASES, 1.0)), dict.fromkeys(RELEASES, 0))
    facts: dict[str, Fact] = {"answers_book": "b", "answers_group": 1}
    first, *others = run.attempts
    unsteady = replace(first, samples=tuple(replace(each, facts=facts) for each in first.samples))
    assert compare_versions(replace(run, attempts=(unsteady, *others))).changed_answers == ()


def test_versions_are_compared_by_blocks_in_common() -> None:
    run = a_run({version: 1.0 if at < 4 else 0.7 for at, version in enumerate(RELEASES)})
    kept = [each for each in run.attempts if each.cell != 3 or each.block < 5]
    (series,) = compare_versions(replace(run, attempts=tuple(kept))).series
    assert [series.versions[step.at] for step in series.steps] == ["1.4.0"]
