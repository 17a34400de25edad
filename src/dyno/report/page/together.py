"""Several runs on one page: the differences between them, and each row that they share, as in `dyno compare`.

The runs of a suite are compared with the first of them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dyno.contracts.model import UsageError
from dyno.report.tables import comparison, display_limits
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats.costs import Prices
from dyno.stats.costs import costs as stats_costs
from dyno.stats.two_runs import between
from dyno.stats.verdict import MARGIN

KINDS = {
    "faster": "faster",
    "slower": "slower",
    "alike": "without a difference",
    "unclear": "without a clear verdict",
}
WHERE = {"machine": "machines", "dyno": "Dyno or its loop", "plan": "plans"}


@dataclass(frozen=True)
class Together:
    """The comparison of two runs."""

    headline: str
    sections: tuple[Section, ...]
    """Sections; the first lists the differences."""
    lines: tuple[str, ...]
    """Explanations of the ratios, and rows of one run only."""
    rest: str
    """Sentence about lines that are left out."""


def together(runs: Sequence[Run], names: Sequence[str]) -> list[Together]:
    """Returns the comparison of each run with the first run of its suite. `names`: names of the runs."""
    first: dict[str, int] = {}
    pairs = []
    for at, run in enumerate(runs):
        base = first.setdefault(str(run.plan["suite"]), at)
        if base != at:
            pairs.append(_pair(runs[base], run, names[base], names[at]))
    return pairs


def costs(runs: Sequence[Run], names: Sequence[str], prices: Prices) -> tuple[Section, str]:
    """Returns the costs of all runs' rows, and a sentence about rows that are left out. Raises UsageError."""
    shown_names = names if len(runs) > 1 else [""]
    by_run = [(run, name, stats_costs(run, prices)) for run, name in zip(runs, shown_names, strict=True)]
    section = comparison.by_cost(by_run, prices)
    rows, rest = display_limits.first(section.rows, display_limits.RESULTS, "rows", "`dyno show --prices` has all")
    return replace(section, remark=section.legend[0], rows=rows), rest


def _pair(before: Run, after: Run, old: str, new: str) -> Together:
    try:
        pair = between(before, after)
    except UsageError as error:
        return Together(f"{new} can't be compared with {old}", (), (str(error),), "")
    changing = list(dict.fromkeys([*varying(before), *varying(after)]))
    differences = comparison.changed(before, after, pair.differences)
    where = "`dyno compare` has all"
    rows, cut = display_limits.first(differences.rows, display_limits.ENTRIES, "differences", where)
    remark = cut or ("" if rows else "nothing that is recorded")
    heads = {"before": old, "after": new}
    sections = [
        replace(section, heads=[heads.get(head, head) for head in section.heads])
        for section in (replace(differences, remark=remark, rows=rows), *comparison.between(pair, changing))
    ]
    gone, rest = display_limits.first(comparison.gone(pair), display_limits.ENTRIES, "rows", where)
    lines = [*gone, *comparison.conditions(after), f"{comparison.how(pair.paired)} {comparison.equal(MARGIN)}"]
    # The headline has the numbers of verdicts, and the differences between the runs.
    kinds = Counter(change.verdict.kind for change in pair.changes)
    parts = [f"{kinds[kind]} of {len(pair.changes)} rows {text}" for kind, text in KINDS.items() if kinds[kind]]
    parts += [] if pair.changes else ["no row has a number in both"]
    places = dict.fromkeys(difference.where for difference in pair.differences)
    engines = [name for name in places if name not in WHERE]
    changed = [WHERE[name] for name in places if name in WHERE]
    changed += [f"version or settings of {display_limits.listed(engines)}"] if engines else []
    parts.append(f"what differs: {display_limits.listed(changed)}" if changed else "nothing that is recorded differs")
    return Together(f"{new} against {old}: {', '.join(parts)}", tuple(sections), tuple(lines), rest)
