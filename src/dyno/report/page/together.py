"""Several runs on one page: what differs between them, and each row that they have in common, as in `dyno compare`.

The first run of a suite is what its others are compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dyno.contracts.model import UsageError
from dyno.report.tables import comparison, cost_table, display_limits
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.costs import Prices
from dyno.stats.costs import costs as stats_costs
from dyno.stats.two_runs import Between, between
from dyno.stats.verdict import MARGIN

KINDS = {"faster": "faster", "slower": "slower", "alike": "without a difference", "unclear": "not told apart"}
WHERE = {"machine": "machines", "dyno": "Dyno or its loop", "plan": "plans"}


@dataclass(frozen=True)
class Together:
    """Two runs."""

    headline: str
    sections: tuple[Section, ...]
    """What differs first."""
    lines: tuple[str, ...]
    """What the ratios are worth, and rows of one run only."""
    rest: str
    """Of lines that are left out."""


def together(runs: Sequence[Run], names: Sequence[str]) -> list[Together]:
    """Each run but the first of its suite, against that one. `names`: what the runs are called."""
    first: dict[str, int] = {}
    found = []
    for at, run in enumerate(runs):
        base = first.setdefault(str(run.plan["suite"]), at)
        if base != at:
            found.append(_pair(runs[base], run, names[base], names[at]))
    return found


def costs(runs: Sequence[Run], names: Sequence[str], prices: Prices) -> tuple[Section, str]:
    """What the rows of all runs cost, and what is to be said of those that are left out. Raises UsageError."""
    told = names if len(runs) > 1 else [""]
    costed = [(run, name, stats_costs(run, prices)) for run, name in zip(runs, told, strict=True)]
    section = cost_table.section(costed, prices)
    shown, rest = display_limits.first(section.rows, display_limits.RESULTS, "rows", "`dyno show --prices` has all")
    return replace(section, remark=section.legend[0], rows=shown), rest


def _pair(before: Run, after: Run, old: str, new: str) -> Together:
    try:
        found = between(before, after)
    except UsageError as error:
        return Together(f"{new} can't be compared with {old}", (), (str(error),), "")
    changing = list(dict.fromkeys([*varying(before), *varying(after)]))
    heads = {"before": old, "after": new}
    differs = comparison.changed(before, after, found.differences)
    shown, cut = display_limits.first(differs.rows, display_limits.ENTRIES, "differences", "`dyno compare` has all")
    remark = cut or ("" if differs.rows else "nothing that is recorded")
    sections = [replace(differs, remark=remark, rows=shown), *comparison.between(found, changing)]
    lines, rest = display_limits.first(
        comparison.gone(found), display_limits.ENTRIES, "rows", "`dyno compare` has all"
    )
    said = [*lines, *comparison.conditions(after), f"{comparison.how(found.paired)} {comparison.equal(MARGIN)}"]
    named = (replace(each, heads=[heads.get(head, head) for head in each.heads]) for each in sections)
    return Together(f"{new} against {old}: {', '.join(_told(found))}", tuple(named), tuple(said), rest)


def _told(found: Between) -> Iterator[str]:
    """What came of the comparison, and what differs."""
    kinds = Counter(change.verdict.kind for change in found.changes)
    yield from (f"{kinds[kind]} of {len(found.changes)} rows {text}" for kind, text in KINDS.items() if kinds[kind])
    if not found.changes:
        yield "no row has a number in both"
    where = dict.fromkeys(difference.where for difference in found.differences)
    engines = [name for name in where if name not in WHERE]
    parts = [WHERE[name] for name in where if name in WHERE]
    parts += [f"version or settings of {display_limits.listed(engines)}"] if engines else []
    yield f"what differs: {display_limits.listed(parts)}" if parts else "nothing that is recorded differs"
