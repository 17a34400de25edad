"""Verdicts and answers in words. All sentences are in one table, `SENTENCES`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dyno.contracts.cell import Cell
from dyno.report.tables import row_titles, units
from dyno.report.tables.display_limits import listed
from dyno.report.tables.table import varying
from dyno.results import Run
from dyno.stats import answer
from dyno.stats.answer import Answer, LimitedRows
from dyno.stats.compare import Comparison
from dyno.stats.load_limit import LoadLimit
from dyno.stats.metric import THROUGHPUT
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS, MOST_MORE, Verdict

FASTEST, EQUAL, UNCLEAR = "fastest", "equally fast", "can't tell"
"""Standings of an engine: faster than all others; slower than the fastest by no more than the margin; unclear."""
TWICE = 2.0
"""Larger differences are shown as a factor, because 'faster by at least 1,900 %' is hard to read."""
NAMED = 4
"""Maximum number of phases that a sentence names. If there are more, it gives their number."""
LEVEL = f"{CONFIDENCE * 100:g} %"
"""Confidence of the intervals of ratios."""
SURE = f"{LEVEL} sure"
MEANS = (
    f"{SURE}: of 100 such intervals, 99 contain the ratio that many more samples on this machine would give; another"
    " machine or another day may differ."
)

SENTENCES = {
    # Verdicts.
    "unclear": "{unclear}, needs {more}",
    "alike": "no difference larger than {most}",
    "apart": "{kind} by {least}",
    "times as fast": "at least {factor} times as fast",
    "slower by factor": "slower by a factor of at least {factor}",
    "not slower": "not slower",
    "slower by most": "slower by at most {most}",
    # Further samples.
    "few": "{count} more {samples}, {fewest} in all at least",
    "thousands": "a quieter machine, or thousands of samples",
    "about": "about {count} more {samples}",
    # Answers.
    "ahead by factor": "at least {factor} times as fast as {other}",
    "ahead": "{least} faster than {other}",
    "alone": "{phases}: {best} has no competitor{tier}",
    "alone of limited": "{phases}: only {best} can be ranked{tier}, and no other engine",
    "alone always": "{phases}: {best} has no competitor{tier}, with any of {count} combinations of parameters",
    "proves nothing": "{best} had the best figures in {what}, which proves nothing: a ratio takes {fewest} samples of"
    " both, not {blocks}",
    "fastest": "{best} is the fastest in {what}: {ahead}",
    "equal": "{names} are equally fast in {what}: no difference from {best} is larger than {most} ({sure})",
    "no winner": "{what}: no clear winner between {names} ({more} would tell; {blocks})",
    "slower": "Slower than {best}: {names}.",
    "few samples": "Too few samples to rank: {names}.",
    "elsewhere": "But {parts}.",
    "set aside": "Not counted: {phase}, not proven cold for {names}.",
    "set aside limited": "Not counted: {phase}, where the load generator was the limit of {names}.",
    "not cold": "Not proven cold there, and not compared: {names}.",
    "left out": "Not compared, because a phase is missing: {names}.",
    # Rows whose limit was the load generator.
    "limited": "{names}: not compared with {clients}{phases}: the load generator used {percent} of the CPU that it"
    " could; try {remedies}",
    "limited row": "the load generator used {percent} of the CPU that it could",
    "native": "--load native",
    "fewer": "fewer clients",
    "elsewhere clients": "clients on another machine",
    "tiers differ": "The tiers differ: {names}; {caveat}.",
}


def _say(sentence: str, **values: object) -> str:
    return SENTENCES[sentence].format(**values)


# -- verdicts -----------------------------------------------------------------------------------------------


def verdict(of: Verdict) -> str:
    """Formats a verdict: 'faster by at least 12 %', 'no difference larger than 4 %', "can't tell, needs about 6 more
    samples"."""
    if of.kind == "unclear":
        return _say("unclear", unclear=UNCLEAR, more=_more(of))
    if of.kind == "alike":
        return _say("alike", most=units.percent(of.bound, math.ceil))
    if of.kind == "faster" and of.low is not None and of.low >= TWICE:
        return _say("times as fast", factor=units.factor(of.low))
    if of.kind == "slower" and of.high is not None and of.high <= 1 / TWICE:
        return _say("slower by factor", factor=units.factor(1 / of.high))
    return _say("apart", kind=of.kind, least=_least(of.bound))


def gated(of: Verdict) -> str:
    """Formats the decision of a gate: 'slower by at least 12 %', 'slower by at most 4 %', "can't tell, needs …"."""
    if of.kind != "alike":
        return verdict(of)
    return _say("slower by most", most=units.percent(of.bound, math.ceil)) if of.bound else _say("not slower")


def _least(share: float | None) -> str:
    """Formats a lower bound, rounded down."""
    percent = units.percent(share, math.floor)
    return "over 0 %" if percent == "0 %" else f"at least {percent}"


def _more(of: Verdict) -> str:
    """Formats the number of further samples that would probably decide."""
    samples = "sample" + "s" * (of.more != 1)
    if of.blocks < FEWEST_BLOCKS:
        return _say("few", count=of.more, samples=samples, fewest=FEWEST_BLOCKS)
    if of.more is None:
        return _say("thousands")
    # The number is an estimate, so it is rounded to two digits.
    step = 10 ** max(len(str(of.more)) - 2, 0)
    return _say("about", count=f"{math.ceil(of.more / step) * step:,}", samples=samples)


def ratio(of: Verdict) -> str:
    """Formats a ratio with its interval: '1.42 [1.31 – 1.54]'."""
    return units.UNKNOWN if of.ratio is None else f"{point(of)} [{interval(of)}]"


def point(of: Verdict) -> str:
    """Formats a ratio as precisely as its interval allows: '1.42'. For a wide interval, returns the end nearer to 1,
    such as '≥ 2.0'. Returns a dash if the wide interval contains 1."""
    if of.ratio is None or of.low is None or of.high is None:
        return units.ratio(of.ratio)
    if not units.is_wide(of.low, of.high):
        return units.ratio(of.ratio, of.high - of.low)
    if of.low > 1:
        return f"≥ {units.two_digits(of.low, math.floor)}"
    return f"≤ {units.two_digits(of.high, math.ceil)}" if of.high < 1 else units.UNKNOWN


def interval(of: Verdict) -> str:
    return units.ratio_interval(of.low, of.high)


def standing(kind: str) -> str:
    """Returns the standing of an engine, given its verdict against the best. Empty for a slower engine."""
    return {"faster": FASTEST, "alike": EQUAL, "unclear": UNCLEAR}.get(kind, "")


def first(others: Iterable[str]) -> str:
    """Returns the standing of a table's best engine, given the kinds of the others' verdicts."""
    kinds = set(others)
    return UNCLEAR if "unclear" in kinds else EQUAL if "alike" in kinds else FASTEST


# -- answers ------------------------------------------------------------------------------------------------


def answers(run: Run, names: Mapping[str, str] | None = None) -> list[str]:
    """Returns a few sentences for each tier, combination of parameters and temperature. The first sentence is the
    headline. `names`: printed names of phases."""
    changing = varying(run)
    groups: dict[object, list[Answer]] = {}
    for at, of in enumerate(called(run, names)):
        alone = not (of.others or of.left_out or of.set_aside or of.warm or of.limited)
        # An engine without a competitor gets a single sentence for all combinations of parameters.
        groups.setdefault((of.tiers, of.best.label, of.phases) if alone else at, []).append(of)
    sentences = []
    for of, *others in groups.values():
        if others:
            phases, best, tier = _phases(of), of.best.label, _at_this_tier(of)
            sentence = _say("alone always", phases=phases, best=best, tier=tier, count=len(others) + 1)
            sentences.append(f"{_where(of, ())}{sentence}.")
        else:
            sentences.append(_answer(of, changing))
    return sentences + [_limited(of, changing, names or {}) for of in answer.limited(run)]


def _limited(of: LimitedRows, changing: Sequence[str], names: Mapping[str, str]) -> str:
    """Says which engines are not compared because the load generator was their limit, and the remedies."""
    phases = {cell.label: listed([names.get(phase, phase) for phase in each]) for cell, each in of.engines}
    alike = len(set(phases.values())) == 1
    engines = [label if alike else f"{label} (in {text})" for label, text in phases.items()]
    low, high = (f"{percent:.0f}" for percent in of.percents)
    remedies = [_say("native")] if of.native else []
    remedies += [_say("fewer")] if of.clients > 1 else []
    remedies.append(_say("elsewhere clients"))
    sentence = _say(
        "limited",
        names=", ".join(engines),
        clients=f"{of.clients} client{'s' * (of.clients != 1)}",
        phases=f" in {next(iter(phases.values()))}" if alike else "",
        percent=f"{high} %" if low == high else f"{low} to {high} %",
        remedies=remedies[0] if len(remedies) == 1 else f"{', '.join(remedies[:-1])}, or {remedies[-1]}",
    )
    return f"{_where(of, [name for name in changing if name != 'clients'])}{sentence}."


def not_compared(limit: LoadLimit) -> str:
    """Says why a row is not compared."""
    return f"not compared: {_say('limited row', percent=f'{limit.percent:.0f} %')}"


def called(run: Run, names: Mapping[str, str] | None = None) -> list[Answer]:
    """Returns the answers, with the printed names of phases."""
    return [_renamed(each, names or {}) for each in answer.answers(run)]


def _renamed(of: Answer, names: Mapping[str, str]) -> Answer:
    return replace(
        of,
        phases=tuple(names.get(phase, phase) for phase in of.phases),
        elsewhere=tuple(replace(each, phase=names.get(each.phase, each.phase)) for each in of.elsewhere),
        set_aside=tuple(replace(each, phase=names.get(each.phase, each.phase)) for each in of.set_aside),
    )


def place(of: Answer, changing: Sequence[str]) -> str:
    """Returns 'get and scan together (hot), at tier process'."""
    where = _where(of, changing).removesuffix(", ")
    return row_titles.named(_phases(of), where and f"{where[0].lower()}{where[1:]}")


def ahead(of: Answer) -> dict[str, str]:
    """Returns the standing of each engine that is not shown to be slower than the best, by its label. Empty if there
    are too few samples."""
    if not of.others or of.others[0][1].blocks < FEWEST_BLOCKS:
        return {}
    near = _near(of)
    return {of.best.label: first(v.kind for _, v in near), **{cell.label: standing(v.kind) for cell, v in near}}


def _answer(of: Answer, changing: Sequence[str]) -> str:
    parts = [f"{_where(of, changing)}{_best(of)}.", *_others(of), *_exceptions(of)]
    if len(of.tiers) > 1:
        cells = [of.best, *(cell for cell, _ in of.others)]
        names = ", ".join(row_titles.engine(cell.label, cell.tier) for cell in cells)
        parts.append(_say("tiers differ", names=names, caveat=row_titles.ACROSS))
    return " ".join(parts)


def _at_this_tier(of: Answer) -> str:
    return " at this tier" if row_titles.tiers(of.tiers) else ""


def _where(of: Answer | LimitedRows, changing: Sequence[str]) -> str:
    """Returns 'At tier power with records=10, '. Empty if there is neither a tier nor a varying parameter."""
    params = units.params({name: of.params[name] for name in changing})
    tier = row_titles.tiers(of.tiers)
    at_tier = f"at {tier}" if tier and len(of.tiers) == 1 else tier
    tool = f"as reported by {of.reported_by}" if of.reported_by else ""
    where = row_titles.named(at_tier, params and f"with {params}", tool, between=" ")
    return f"{where[0].upper()}{where[1:]}, " if where else ""


def _best(of: Answer) -> str:
    what = _phases(of) + ("" if of.metric is THROUGHPUT else f" by {of.metric.title}")
    best = of.best.label
    if not of.others:
        sentence = "alone of limited" if of.limited else "alone"
        return _say(sentence, phases=_phases(of), best=best, tier=_at_this_tier(of))
    near = _near(of)
    second = of.others[0][1]
    if second.blocks < FEWEST_BLOCKS:
        return _say("proves nothing", best=best, what=what, fewest=FEWEST_BLOCKS, blocks=second.blocks)
    if not near:
        return _say("fastest", best=best, what=what, ahead=_before(of))
    names = listed([best, *(cell.label for cell, _ in near)])
    if all(v.kind == "alike" for _, v in near):
        most = units.percent(max(v.bound or 0.0 for _, v in near), math.ceil)
        return _say("equal", names=names, what=what, best=best, most=most, sure=f"{SURE}; {_blocks(second)}")
    widest = max((v for _, v in near if v.kind == "unclear"), key=lambda v: v.more or MOST_MORE)
    return _say("no winner", what=what, names=names, more=_more(widest), blocks=_blocks(second))


def _before(of: Answer) -> str:
    """Returns by how much the best engine is ahead of the second."""
    cell, seen = of.others[0]
    inverse = _inverse(seen)
    text = _ahead(inverse, cell.label)
    if inverse.low is None or inverse.high is None or units.is_wide(inverse.low, inverse.high):
        return f"{text} ({SURE}; {_blocks(inverse)})"
    return f"{text} ({point(inverse)} times as fast, {SURE} of {interval(inverse)}; {_blocks(inverse)})"


def _ahead(of: Verdict, other: str) -> str:
    """Returns 'at least 12 % faster than sqlite'."""
    if of.low is not None and of.low >= TWICE:
        return _say("ahead by factor", factor=units.factor(of.low), other=other)
    return _say("ahead", least=_least(of.bound), other=other)


def _inverse(of: Verdict) -> Verdict:
    """Returns the verdict on the best engine compared with the second."""
    if of.ratio is None or of.low is None or of.high is None:
        return of
    low, high = 1 / of.high, 1 / of.low
    return Verdict("faster", 1 / of.ratio, low, high, low - 1, of.blocks, None)


def _near(of: Answer) -> list[tuple[Cell, Verdict]]:
    """Returns the engines with enough samples that are not shown to be slower than the best."""
    return [(cell, v) for cell, v in of.others if v.kind in ("alike", "unclear") and v.blocks >= FEWEST_BLOCKS]


def _others(of: Answer) -> list[str]:
    if of.others and of.others[0][1].blocks < FEWEST_BLOCKS:
        return []
    slower = [cell.label for cell, v in of.others if v.kind == "slower"]
    sentences = [_say("slower", best=of.best.label, names=listed(slower))] if slower and _near(of) else []
    if few := [cell.label for cell, v in of.others if v.blocks < FEWEST_BLOCKS]:
        sentences.append(_say("few samples", names=listed(few)))
    return sentences


def _exceptions(of: Answer) -> list[str]:
    by_engine: dict[str, list[Comparison]] = {}
    for comparison in of.elsewhere:
        by_engine.setdefault(comparison.engine.label, []).append(comparison)
    parts = []
    for engine, faster in by_engine.items():
        least = min((c.verdict for c in faster), key=lambda v: v.bound or 0.0)
        parts.append(f"{engine} is {_ahead(least, of.best.label)} in {listed([c.phase for c in faster])}")
    sentences = [_say("elsewhere", parts="; ".join(parts))] if parts else []
    for table in of.set_aside:
        why, cells = ("set aside", table.warm) if table.warm else ("set aside limited", table.limited)
        sentences.append(_say(why, phase=table.phase, names=listed([cell.label for cell in cells])))
    if of.warm:
        sentences.append(_say("not cold", names=listed([cell.label for cell in of.warm])))
    if of.left_out:
        sentences.append(_say("left out", names=listed([cell.label for cell in of.left_out])))
    return sentences


def _phases(of: Answer) -> str:
    """Returns the phases with their temperature, which is the same for all of them."""
    count, neither = len(of.phases), of.temperature == "none"
    if count > NAMED:
        if neither:
            return f"the {count} phases together that are neither hot nor cold"
        return f"the {count} {of.temperature} phases together"
    text = of.phases[0] if count == 1 else f"{listed(of.phases)} together"
    return text if neither else f"{text} ({of.temperature})"


def _blocks(of: Verdict) -> str:
    return f"{of.blocks} samples of each"
