"""Verdicts and answers in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from dyno.contracts.sample import Cell
from dyno.report.tables import row_titles, units
from dyno.report.tables.display_limits import listed as _and
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats import answer
from dyno.stats.answer import Answer
from dyno.stats.compare import Comparison
from dyno.stats.metric import THROUGHPUT
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS, MOST_MORE, Verdict

FASTEST, EQUAL, UNCLEAR = "fastest", "equally fast", "can't tell"
"""How an engine stands: faster than all others, no slower than the fastest by more than the margin, or not shown."""
TWICE = 2.0
WIDE = 3.0
"""An interval whose ends are further apart than by this factor gives a bound, and no ratio."""
FINENESS = 50
"""The last digit of a ratio is worth at least its interval's width divided by this."""
NAMED = 4
"""Phases that a sentence names; of more, it says how many they are."""
LEVEL = f"{CONFIDENCE * 100:g} %"
"""Of the intervals of ratios."""
SURE = f"{LEVEL} sure"
MEANS = f"{SURE}: of 100 such intervals, 99 hold the ratio that ever more samples on this machine would come to."
"""What an answer's certainty covers, and what it does not: another machine, another day."""
Rounding = Callable[[float], int]


def verdict(found: Verdict) -> str:
    """'faster by at least 12 %', 'no difference larger than 4 %', "can't tell, needs about 6 more samples"."""
    if found.kind == "unclear":
        return f"{UNCLEAR}, needs {_more(found)}"
    return f"no difference larger than {_most(found.bound)}" if found.kind == "alike" else _apart(found)


def gated(found: Verdict) -> str:
    """The decision of a gate: 'slower by at least 12 %', 'slower by at most 4 %', "can't tell, needs …"."""
    if found.kind != "alike":
        return verdict(found)
    return f"slower by at most {_most(found.bound)}" if found.bound else "not slower"


def _apart(found: Verdict) -> str:
    """From a factor of two on as a factor: 'faster by at least 1,900 %' is not read."""
    if found.kind == "faster" and found.low is not None and found.low >= TWICE:
        return f"at least {_times(found.low)} times as fast"
    if found.kind == "slower" and found.high is not None and found.high <= 1 / TWICE:
        return f"slower by a factor of at least {_times(1 / found.high)}"
    return f"{found.kind} by {_least(found.bound)}"


def _ahead(found: Verdict, of: str) -> str:
    """Of one that is faster: 'at least 12 % faster than sqlite'."""
    if found.low is not None and found.low >= TWICE:
        return f"at least {_times(found.low)} times as fast as {of}"
    return f"{_least(found.bound)} faster than {of}"


def _more(found: Verdict) -> str:
    if found.blocks < FEWEST_BLOCKS:
        return f"{found.more} more sample{'s' * (found.more != 1)}, {FEWEST_BLOCKS} in all at least"
    if found.more is None:
        return "a quieter machine, or thousands of samples"
    # A guess: two digits.
    step = 10 ** max(len(str(found.more)) - 2, 0)
    return f"about {math.ceil(found.more / step) * step:,} more sample{'s' * (found.more != 1)}"


def _least(share: float | None) -> str:
    """A bound that is rounded stays true: this one down, the other up."""
    found = _percent(share, math.floor)
    return "over 0 %" if found == "0 %" else f"at least {found}"


def _most(share: float | None) -> str:
    return _percent(share, math.ceil)


def _percent(share: float | None, rounding: Rounding) -> str:
    if share is None:
        return units.UNKNOWN
    percent = share * 100
    return f"{_rounded(percent, 0 if percent >= 10 else 1 if percent >= 1 else 2, rounding):g} %"


def _times(factor: float) -> str:
    whole = factor >= 10
    return f"{_rounded(factor, 0 if whole else 1, math.floor):,.{0 if whole else 1}f}"


def _rounded(value: float, digits: int, rounding: Rounding) -> float:
    step = float(10**digits)
    # 0.29 * 100 is a little less than 29.
    return rounding(round(value * step, 6)) / step


def ratio(found: Verdict) -> str:
    """'1.42 [1.31 – 1.54]'."""
    if found.ratio is None:
        return units.UNKNOWN
    return f"{point(found)} [{interval(found)}]"


def point(found: Verdict) -> str:
    """'1.42', as precise as its interval allows. Of a wide interval the end nearer to 1, '≥ 2.0', if any."""
    if found.ratio is None or found.low is None or found.high is None:
        return figure(found.ratio)
    if not _wide(found.low, found.high):
        return figure(found.ratio, found.high - found.low)
    if found.low > 1:
        return f"≥ {_two_digits(found.low, math.floor)}"
    return f"≤ {_two_digits(found.high, math.ceil)}" if found.high < 1 else units.UNKNOWN


def interval(found: Verdict) -> str:
    if found.low is None or found.high is None:
        return units.UNKNOWN
    return span(found.low, found.high)


def span(low: float, high: float) -> str:
    """An interval of ratios, as precise as its width allows. A wide one is rounded outwards to two digits."""
    if _wide(low, high):
        return f"{_two_digits(low, math.floor)} – {_two_digits(high, math.ceil)}"
    return f"{figure(low, high - low)} – {figure(high, high - low)}"


def _wide(low: float, high: float) -> bool:
    return high > low * WIDE


def _two_digits(value: float, rounding: Rounding) -> str:
    if value <= 0:
        return "0"
    digits = 1 - math.floor(math.log10(value))
    rounded = _rounded(value, digits, rounding)
    return f"{rounded:,.{max(digits, 0)}f}"


def figure(value: float | None, width: float = 0.0) -> str:
    """A ratio: at most three digits after the point around 1. `width`: of its interval, which may allow fewer."""
    if value is None:
        return units.UNKNOWN
    if width > 0 and value > 0:
        allowed = math.floor(math.log10(FINENESS / width))
        usual = 0 if value >= 99.5 else 1 if value >= 10 else 2 if value >= 2 else 3
        if allowed < usual:
            return f"{round(value, allowed):,.{max(allowed, 0)}f}"
    if value >= 99.5:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 10 or value < 0.1 else f"{value:.3f}" if value < 2 else f"{value:.2f}"


def answers(run: Run, names: Mapping[str, str] | None = None) -> list[str]:
    """For a person who has to decide: a sentence or a few for each tier, combination of parameters and temperature.
    The first is the headline. `names`: what phases are called, where that is not their name."""
    changing = varying(run)
    told: dict[object, list[Answer]] = {}
    for at, found in enumerate(called(run, names)):
        empty = not (found.others or found.left_out or found.set_aside or found.warm)
        # Of one that is alone whatever the parameters, it is said once.
        told.setdefault((found.tiers, found.best.label, found.phases) if empty else at, []).append(found)
    return [_answer(same[0], changing) if len(same) == 1 else _alone(same) for same in told.values()]


def called(run: Run, names: Mapping[str, str] | None = None) -> list[Answer]:
    """The answers, with their phases called as `names` says."""
    return [_called(each, names or {}) for each in answer.answers(run)]


def place(found: Answer, changing: Sequence[str]) -> str:
    """What an answer is of: 'get and scan together (hot), at tier process'."""
    where = _where(found, changing).removesuffix(", ")
    return row_titles.named(_phases(found), where and f"{where[0].lower()}{where[1:]}")


def ahead(found: Answer) -> dict[str, str]:
    """How each engine stands that is not shown to be slower than the best, by its label. Empty if there are too few
    samples to say."""
    if not found.others or found.others[0][1].blocks < FEWEST_BLOCKS:
        return {}
    near = {cell.label: standing(verdict_.kind) for cell, verdict_ in _near(found)}
    return {found.best.label: first(verdict_.kind for _, verdict_ in _near(found)), **near}


def standing(kind: str) -> str:
    """How one stands by its verdict, as seen from the best. Empty for one that is slower."""
    return {"faster": FASTEST, "alike": EQUAL, "unclear": UNCLEAR}.get(kind, "")


def first(others: Iterable[str]) -> str:
    """How the best of a table stands, by the kinds of the others' verdicts."""
    kinds = set(others)
    return UNCLEAR if "unclear" in kinds else EQUAL if "alike" in kinds else FASTEST


def _called(found: Answer, names: Mapping[str, str]) -> Answer:
    return replace(
        found,
        phases=tuple(names.get(phase, phase) for phase in found.phases),
        elsewhere=tuple(replace(each, phase=names.get(each.phase, each.phase)) for each in found.elsewhere),
        set_aside=tuple(replace(each, phase=names.get(each.phase, each.phase)) for each in found.set_aside),
    )


def _alone(found: Sequence[Answer]) -> str:
    first = found[0]
    return (
        f"{_where(first, ())}{first.best.label} is alone in {_phases(first)}, with each of"
        f" {len(found)} combinations of parameters: there is nothing to compare it with."
    )


def _answer(found: Answer, changing: Sequence[str]) -> str:
    parts = [f"{_where(found, changing)}{_best(found)}.", *_others(found), *_exceptions(found), *_across(found)]
    return " ".join(parts)


def _across(found: Answer) -> list[str]:
    """The caveat of a comparison across tiers."""
    if len(found.tiers) < 2:
        return []
    cells = [found.best, *(cell for cell, _ in found.others)]
    named = ", ".join(row_titles.engine(cell.label, cell.tier) for cell in cells)
    return [f"The tiers differ: {named}; {row_titles.ACROSS}."]


def _where(found: Answer, changing: Sequence[str]) -> str:
    """'At tier power with records=10, ': nothing where there is no tier and no parameter varies."""
    params = units.params({name: found.params[name] for name in changing})
    tier = row_titles.tiers(found.tiers)
    at_tier = f"at {tier}" if tier and len(found.tiers) == 1 else tier
    tool = f"as reported by {found.reported_by}" if found.reported_by else ""
    where = row_titles.named(at_tier, params and f"with {params}", tool, between=" ")
    return f"{where[0].upper()}{where[1:]}, " if where else ""


def _best(found: Answer) -> str:
    what = _phases(found)
    by = "" if found.metric is THROUGHPUT else f" by {found.metric.title}"
    if not found.others:
        return f"{found.best.label} is alone in {what}: there is nothing to compare it with"
    near = _near(found)
    second = found.others[0][1]
    if second.blocks < FEWEST_BLOCKS:
        short = f"a ratio takes {FEWEST_BLOCKS} samples of both, not {second.blocks}"
        return f"{found.best.label} had the best figures in {what}{by}, which proves nothing: {short}"
    if not near:
        return f"{found.best.label} is the fastest in {what}{by}: {_before(found)}"
    names = _and([found.best.label, *(cell.label for cell, _ in near)])
    if all(verdict_.kind == "alike" for _, verdict_ in near):
        most = _most(max(verdict_.bound or 0.0 for _, verdict_ in near))
        alike = f"no difference from {found.best.label} is larger than {most}"
        return f"{names} are equally fast in {what}{by}: {alike} ({SURE}; {_blocks(second)})"
    widest = max((v for _, v in near if v.kind == "unclear"), key=lambda v: v.more or MOST_MORE)
    return f"{names} can't be told apart in {what}{by} ({_blocks(second)}): it needs {_more(widest)}"


def _before(found: Answer) -> str:
    """By how much the best is ahead of the second."""
    cell, seen = found.others[0]
    ahead = _inverse(seen)
    said = _ahead(ahead, cell.label)
    if ahead.low is None or ahead.high is None or _wide(ahead.low, ahead.high):
        return f"{said} ({SURE}; {_blocks(ahead)})"
    return f"{said} ({point(ahead)} times as fast, {SURE} of {interval(ahead)}; {_blocks(ahead)})"


def _near(found: Answer) -> list[tuple[Cell, Verdict]]:
    """Those that are not shown to be slower than the best, of those with samples enough."""
    return [(cell, v) for cell, v in found.others if v.kind in ("alike", "unclear") and v.blocks >= FEWEST_BLOCKS]


def _inverse(found: Verdict) -> Verdict:
    """The best as seen from the second."""
    if found.ratio is None or found.low is None or found.high is None:
        return found
    low, high = 1 / found.high, 1 / found.low
    return Verdict("faster", 1 / found.ratio, low, high, low - 1, found.blocks, None)


def _others(found: Answer) -> list[str]:
    if found.others and found.others[0][1].blocks < FEWEST_BLOCKS:
        return []
    slower = [cell.label for cell, verdict_ in found.others if verdict_.kind == "slower"]
    told = [f"Slower than {found.best.label}: {_and(slower)}."] if slower and _near(found) else []
    if few := [cell.label for cell, verdict_ in found.others if verdict_.blocks < FEWEST_BLOCKS]:
        told.append(f"With too few samples to be placed: {_and(few)}.")
    return told


def _exceptions(found: Answer) -> list[str]:
    by_engine: dict[str, list[Comparison]] = {}
    for comparison in found.elsewhere:
        by_engine.setdefault(comparison.engine.label, []).append(comparison)
    parts = []
    for engine, faster in by_engine.items():
        least = min((c.verdict for c in faster), key=lambda verdict_: verdict_.bound or 0.0)
        parts.append(f"{engine} is {_ahead(least, found.best.label)} in {_and([c.phase for c in faster])}")
    told = [f"But {'; '.join(parts)}."] if parts else []
    for table in found.set_aside:
        told.append(f"Set aside: {table.phase}, not proven to be cold for {_and([c.label for c in table.warm])}.")
    if found.warm:
        told.append(f"Not proven to be cold there, and not compared: {_and([cell.label for cell in found.warm])}.")
    if found.left_out:
        told.append(f"Left out for want of a phase: {_and([cell.label for cell in found.left_out])}.")
    return told


def _phases(found: Answer) -> str:
    """With their temperature: a mean is of one alone."""
    neither, count = found.temperature == "none", len(found.phases)
    if count == 1:
        return found.phases[0] if neither else f"{found.phases[0]} ({found.temperature})"
    if count <= NAMED:
        together = f"{_and(found.phases)} together"
        return together if neither else f"{together} ({found.temperature})"
    if neither:
        return f"the {count} phases together that are neither hot nor cold"
    return f"the {count} {found.temperature} phases together"


def _blocks(found: Verdict) -> str:
    return f"{found.blocks} samples of each"
