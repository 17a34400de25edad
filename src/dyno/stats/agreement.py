"""Engines that answer the same questions must agree. If they don't, the largest group of agreeing engines is valid,
or the group of the engine that the user named as the reference. The others are void, and all are if no group is
larger.

Only suites whose answers nobody knows beforehand need this: their samples have a group of the run's book of answers,
and a chain of digests by which trials of an interrupted and resumed run are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from dyno.contracts.cell import Cell
from dyno.contracts.model import Fact
from dyno.fields import Sample
from dyno.results import Attempt, Run
from dyno.stats.cache import cache_by_run

BOOK = "answers_book"
GROUP = "answers_group"
CHAIN = "answers_chain"
DIFFERS = "answers_differ"
OWN_REMEDY = "answers_remedy"
"""Fact with the suite's own remedy for answers that differ from trial to trial."""
REMEDY = "compare the columns that are determined, order by a unique key, or compare the number of rows"


def agree(one: Mapping[str, Fact], other: Mapping[str, Fact]) -> bool:
    """Returns whether the answers behind two samples' facts agree as far as both were asked."""
    if one.get(BOOK) == other.get(BOOK):
        return one.get(GROUP) == other.get(GROUP)
    mine, theirs = (dict(link.split(":") for link in str(each.get(CHAIN, "")).split()) for each in (one, other))
    common = max((count for count in mine if count in theirs), key=int, default=None)
    return common is None or mine[common] == theirs[common]


@cache_by_run
def judged_attempts(run: Run) -> tuple[Attempt, ...]:
    """Returns the run's attempts, in which the samples of engines that disagree are void."""
    reference = str((run.header.definition or {}).get("reference", ""))
    reasons = find_disagreements(run.cells, run.attempts, reference)
    if not reasons:
        return run.attempts
    judged = list[Attempt]()
    for attempt in run.attempts:
        samples = tuple(replace(each, void=reasons.get(id(each), each.void)) for each in attempt.samples)
        judged.append(replace(attempt, samples=samples))
    return tuple(judged)


def find_disagreements(cells: Sequence[Cell], attempts: Sequence[Attempt], reference: str = "") -> dict[int, str]:
    """Returns why samples of engines that disagree are void, by the sample's `id`. Samples are compared if their
    phase and parameters are the same."""
    reasons: dict[int, str] = {}
    by_question: dict[tuple[str, str], list[tuple[int, Sample]]] = {}
    for attempt in attempts:
        for sample in attempt.samples:
            if BOOK in sample.facts and not sample.void:
                question = sample.phase, repr(sorted(cells[attempt.cell].params.items()))
                by_question.setdefault(question, []).append((attempt.cell, sample))
    for samples in by_question.values():
        reasons |= _judge(cells, samples, reference)
    return reasons


def _judge(cells: Sequence[Cell], samples: Sequence[tuple[int, Sample]], reference: str) -> dict[int, str]:
    """Returns the reasons for the samples of one question."""
    groups = list[list[tuple[int, Sample]]]()
    for cell, sample in samples:
        for group in groups:
            if agree(group[0][1].facts, sample.facts):
                group.append((cell, sample))
                break
        else:
            groups.append([(cell, sample)])
    reasons: dict[int, str] = {}
    if len(groups) < 2:
        return reasons
    members = [{cell for cell, _ in group} for group in groups]
    unsteady = {cell for one, other in combinations(members, 2) for cell in one & other}
    steady = [cell - unsteady for cell in members]
    referred = [
        group
        for group in steady
        if any(reference in (cells[cell].engine, *cells[cell].options.values()) for cell in group)
    ]
    largest = sorted(steady, key=len)[-2:]
    if reference and len(referred) == 1:
        right = referred[0]
    else:
        right = largest[1]
    tie = right is largest[1] and not referred and len(largest[0]) == len(largest[1])
    for cell, sample in samples:
        if cell in unsteady:
            remedy = sample.facts.get(OWN_REMEDY, REMEDY)
            reasons[id(sample)] = f"not deterministic: {_first_difference_of(cell, samples)}; {remedy}"
        elif tie:
            sides = " and ".join(", ".join(sorted(cells[each].label for each in group)) for group in steady if group)
            remedy = f'name the one that is right as reference = "{cells[cell].name or cells[cell].engine}"'
            reasons[id(sample)] = (
                f"as many engines answer otherwise ({sides}); {remedy}: {_first_difference(samples)}"
            )
        elif cell not in right:
            others = ", ".join(sorted(cells[each].label for each in right))
            reasons[id(sample)] = (
                f"disagrees with {others}: {_first_difference_of(cell, samples) or _first_difference(samples)}"
            )
    return reasons


def _first_difference_of(cell: int, samples: Sequence[tuple[int, Sample]]) -> str:
    return _first_difference([(at, sample) for at, sample in samples if at == cell])


def _first_difference(samples: Sequence[tuple[int, Sample]]) -> str:
    return next((str(sample.facts[DIFFERS]) for _, sample in samples if sample.facts.get(DIFFERS)), "")
