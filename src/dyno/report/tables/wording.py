"""Verdicts and answers in words."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier
from dyno.report.tables import display, lone, units
from dyno.report.tables.display import join_names
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.stats import answer
from dyno.stats.answer import Answer, LimitedRows
from dyno.stats.load_limit import LoadLimit
from dyno.stats.metric import CAPACITY, THROUGHPUT, Metric
from dyno.stats.summary import Suspicion, group_values, summarize
from dyno.stats.verdict import CONFIDENCE, FEWEST_BLOCKS, MOST_MORE, Verdict

FASTEST = "fastest"
EQUAL = "equally fast"
UNCLEAR = "can't tell"
"""Standings of an engine: faster than all others; slower than the fastest by no more than the margin; unclear."""
TWICE = 2.0
"""Larger differences are shown as a factor, because 'faster by at least 1,900 %' is hard to read."""
SUSPICIONS = {
    "empty": "up to {percent:.0f} % of the answers are empty; ask for values that exist",
    "same-answer": "up to {percent:.0f} % of the answers are the same; draw other values, or turn off result caches",
}
"""Why rows with suspicious answers are not compared, and the remedies."""
NAMED = 4
"""Maximum number of phases that a sentence names. If there are more, it gives their number."""


def level(confidence: float) -> str:
    """Formats the confidence of intervals: '99 %', '99.67 %'."""
    return f"{confidence * 100:.4g} %"


LEVEL = level(CONFIDENCE)
"""Confidence of the intervals of ratios."""
SURE = f"{LEVEL} sure"
MEANS = (
    f"{SURE}: of 100 such runs, at most one has any interval without the ratio that many more samples on this machine"
    " would give; another machine or another day may differ."
)
APART = (
    "Ratios of {what}, with {level} intervals. The runs were not measured in turns: a drift of the"
    " machine between them is in the ratio, but in its interval only as far as it shows within the runs."
)
IN_TURNS = "Measured in turns: ratios of {what}, block by block, with {level} intervals."

# -- verdicts -----------------------------------------------------------------------------------------------


def verdict(of: Verdict, by: Metric = THROUGHPUT) -> str:
    """Formats a verdict: 'faster by at least 12 %', 'no difference larger than 4 %', "can't tell, needs about 6 more
    samples". Of a resource: 'needs at least 12 % less memory'."""
    if of.kind == "unclear":
        return f"{UNCLEAR}, {needs(of)}"
    if of.kind == "alike":
        return f"no difference larger than {units.percent(of.bound, math.ceil)}"
    if by.needs:
        return _need(of, by.needs)
    if of.kind == "faster" and of.low is not None and of.low >= TWICE:
        return f"at least {units.factor(of.low)} times as fast"
    if of.kind == "slower" and of.high is not None and of.high <= 1 / TWICE:
        return f"slower by a factor of at least {units.factor(1 / of.high)}"
    return f"{of.kind} by {_least(of.bound)}"


def needs(of: Verdict) -> str:
    """Formats what would decide an unclear verdict: 'needs about 6 more samples'."""
    return f"needs {_samples_needed(of)}"


def _need(of: Verdict, resource: str) -> str:
    """Formats that less or more of a resource is needed. The ratio of speeds is the inverse of the ratio of needs."""
    if of.kind == "faster":
        low = of.low or 1.0
        if low >= TWICE:
            return f"needs less {resource} by a factor of at least {units.factor(low)}"
        return f"needs {_least(max(1 - 1 / low, 0.0))} less {resource}"
    high = of.high or 1.0
    if high <= 1 / TWICE:
        return f"needs at least {units.factor(1 / high)} times as much {resource}"
    return f"needs {_least(max(1 / high - 1, 0.0))} more {resource}"


def format_gate_verdict(of: Verdict, by: Metric = THROUGHPUT) -> str:
    """Formats the decision of a gate: 'slower by at least 12 %', 'slower by at most 4 %', "can't tell, needs …"."""
    if of.kind != "alike":
        return verdict(of, by)
    if by.needs:
        return f"needs {f'at most {units.percent(of.bound, math.ceil)}' if of.bound else 'no'} more {by.needs}"
    if of.bound:
        return f"slower by at most {units.percent(of.bound, math.ceil)}"
    return "not slower"


def _least(share: float | None) -> str:
    percent = units.percent(share, math.floor)
    if percent == "0 %":
        return "over 0 %"
    return f"at least {percent}"


def _samples_needed(of: Verdict) -> str:
    samples = "sample" + "s" * (of.more != 1)
    if of.blocks < FEWEST_BLOCKS:
        return f"{of.more} more {samples}, {FEWEST_BLOCKS} in all at least"
    if of.more is None:
        return "a quieter machine, or thousands of samples"
    # The number is an estimate, so it is rounded to two digits.
    step = 10 ** max(len(str(of.more)) - 2, 0)
    return f"about {math.ceil(of.more / step) * step:,} more {samples}"


def ratio(of: Verdict) -> tuple[str, str]:
    """Formats a ratio and its interval: '1.42', '1.31 – 1.54'."""
    return point(of), interval(of)


def point(of: Verdict) -> str:
    """Formats a ratio as precisely as its interval allows: '1.42'. For a wide interval, returns the end nearer to 1,
    such as '≥ 2.0'. Returns a dash if the wide interval contains 1."""
    if of.ratio is None or of.low is None or of.high is None:
        return units.ratio(of.ratio)
    if not units.is_wide(of.low, of.high):
        return units.ratio(of.ratio, of.low, of.high)
    if of.low > 1:
        return f"≥ {units.two_digits(of.low, math.floor)}"
    if of.high < 1:
        return f"≤ {units.two_digits(of.high, math.ceil)}"
    return units.UNKNOWN


def interval(of: Verdict) -> str:
    return units.ratio_interval(of.low, of.high)


def how_within(by: Metric | None, named: bool) -> str:
    """Returns sentences on how ratios within a run were measured. `by`: the requested metric. `named`: whether the
    user named the baseline, rather than the figures."""
    if by is not None and by.needs:
        what = f"{by.needs}, the baseline's to the row's"
    else:
        what = "speed"
    if named:
        certainty = "Of 100 comparisons between equals, one is called a difference by chance."
    else:
        certainty = (
            "They hold together: of 100 runs of equal rows, at most one calls any of them different by chance."
        )
    return f"Ratios of {what}, block by block, with {LEVEL} intervals. {certainty}"


def explain_ratios(paired: bool, level: str = LEVEL, by: Metric | None = None) -> str:
    """Returns a sentence on how the ratios of two runs were measured. `by`: the requested metric."""
    if by is not None and by.needs:
        what = f"{by.needs}, before to after"
    else:
        what = "speed, after to before"
    return (IN_TURNS if paired else APART).format(what=what, level=level)


def name_standing(kind: str) -> str:
    """Returns the standing of an engine, given its verdict against the best. Empty for a slower engine."""
    return {"faster": FASTEST, "alike": EQUAL, "unclear": UNCLEAR}.get(kind, "")


def best_standing(others: Iterable[str]) -> str:
    """Returns the standing of a table's best engine, given the kinds of the others' verdicts."""
    kinds = set(others)
    if "unclear" in kinds:
        return UNCLEAR
    if "alike" in kinds:
        return EQUAL
    return FASTEST


# -- answers ------------------------------------------------------------------------------------------------


def answers(run: Run, names: Mapping[str, str] | None = None) -> list[str]:
    """Returns a few sentences for each tier, combination of parameters and temperature. The first sentence is the
    headline. `names`: printed names of phases."""
    changing = varying_params(run)
    groups: dict[object, list[Answer]] = {}
    alone: dict[tuple[str, Tier | None, str | None], None] = {}
    for at, of in enumerate(rename_phases(run, names)):
        if _explain_unproven(of):
            # They share a sentence, which would otherwise repeat itself for each tier and combination.
            groups.setdefault(_explain_unproven(of), []).append(of)
            continue
        if of.others or of.left_out or of.set_aside or of.warm or of.limited:
            groups.setdefault(at, []).append(of)
        else:
            alone.setdefault((of.best.label, of.best.tier, of.reported_by), None)
    sentences = []
    for of, *others in groups.values():
        if others and _explain_unproven(of):
            sentences.append(_join_unproven([of, *others], changing))
        else:
            sentences.append(_answer(of, changing))
    sentences += [_describe_limited(of, changing, names or {}) for of in answer.group_limited_rows(run)]
    sentences += _describe_suspicious(run, names or {})
    figures = [lone.describe_engine(run, *which, names or {}) for which in alone]
    if figures and sentences:
        return [*sentences, f"Without a competitor: {' '.join(figures)}"]
    return sentences + figures


def _describe_limited(of: LimitedRows, changing: Sequence[str], names: Mapping[str, str]) -> str:
    """Says which engines are not compared because the load generator was their limit, and the remedies."""
    phases = {cell.label: join_names([names.get(phase, phase) for phase in each]) for cell, each in of.engines}
    alike = len(set(phases.values())) == 1
    engines = [label if alike else f"{label} (in {text})" for label, text in phases.items()]
    low, high = (f"{percent:.0f}" for percent in of.percents)
    if low == high:
        percent = f"{high} %"
    else:
        percent = f"{low} to {high} %"
    remedies = ["--load native"] * of.native + ["fewer clients"] * (of.clients > 1)
    if remedies:
        remedy = f"{', '.join(remedies)}, or clients on another machine"
    else:
        remedy = "clients on another machine"
    clients = f"{of.clients} client{'s' * (of.clients != 1)}"
    if alike:
        where = f" in {next(iter(phases.values()))}"
    else:
        where = ""
    return (
        f"{_name_place(of, [name for name in changing if name != 'clients'])}{', '.join(engines)}: not compared with"
        f" {clients}{where}: the load generator used {percent} of the CPU that it could; try {remedy}."
    )


def _describe_suspicious(run: Run, names: Mapping[str, str]) -> list[str]:
    """Says which rows are not compared because their answers prove little work, and the remedies."""
    groups = group_values(
        ((names.get(row.phase, row.phase), row.suspicion.code), (row.cell.label, row.suspicion))
        for row in summarize(run)
        if row.suspicion is not None and not row.cell.floor
    )
    sentences = []
    for (phase, _), alike in groups.items():
        labels = join_names(list(dict.fromkeys(label for label, _ in alike)))
        worst = max((suspicion for _, suspicion in alike), key=lambda suspicion: suspicion.percent)
        sentences.append(f"{phase}: {labels}: {explain_suspicion(worst)}.")
    return sentences


def explain_suspicion(of: Suspicion) -> str:
    """Says why a row with suspicious answers is not compared."""
    return f"not compared: {SUSPICIONS[of.code].format(percent=of.percent)}"


def not_compared(limit: LoadLimit) -> str:
    """Says why a row is not compared."""
    return f"not compared: the load generator used {limit.percent:.0f} % of the CPU that it could"


def rename_phases(run: Run, names: Mapping[str, str] | None = None) -> list[Answer]:
    """Returns the answers, with the printed names of phases."""
    known = names or {}
    renamed = []
    for of in answer.answers(run):
        phases = tuple(known.get(phase, phase) for phase in of.phases)
        elsewhere = tuple(replace(each, phase=known.get(each.phase, each.phase)) for each in of.elsewhere)
        set_aside = tuple(replace(each, phase=known.get(each.phase, each.phase)) for each in of.set_aside)
        renamed.append(replace(of, phases=phases, elsewhere=elsewhere, set_aside=set_aside))
    return renamed


def place(of: Answer, changing: Sequence[str]) -> str:
    """Returns 'get and scan together (hot), at tier process'."""
    return display.join_parts(_phases(of), _place(of, changing))


def _place(of: Answer, changing: Sequence[str]) -> str:
    """Returns 'at tier process with clients=4', which may be empty."""
    where = _name_place(of, changing).removesuffix(", ")
    return where and f"{where[0].lower()}{where[1:]}"


def name_leaders(of: Answer) -> dict[str, str]:
    """Returns the standing of each engine that is not shown to be slower than the best, by its label. Empty if there
    are too few samples."""
    if not of.others or of.others[0][1].blocks < FEWEST_BLOCKS:
        return {}
    near = _near_best(of)
    return {
        of.best.label: best_standing(v.kind for _, v in near),
        **{cell.label: name_standing(v.kind) for cell, v in near},
    }


def _answer(of: Answer, changing: Sequence[str]) -> str:
    return " ".join(
        [
            f"{_name_place(of, changing)}{_best(of)}.",
            *_describe_less_cpu(of),
            *_describe_others(of),
            *_exceptions(of),
            *_describe_tiers(of),
        ]
    )


def _describe_less_cpu(of: Answer) -> list[str]:
    """Says what CPU time shows where the clock shows no winner."""
    if of.less_cpu is None or _explain_unproven(of):
        return []
    least = min(verdict.bound or 0.0 for _, verdict in of.less_cpu.others)
    names = join_names([cell.label for cell, _ in of.less_cpu.others])
    return [f"By CPU time, {of.less_cpu.best.label} needs {_least(least)} less for each item than {names} ({SURE})."]


def _explain_unproven(of: Answer) -> str:
    """Returns why the best figures prove nothing; empty if they do, or if there is no other engine."""
    if not of.others or of.others[0][1].blocks >= FEWEST_BLOCKS:
        return ""
    if of.metric is CAPACITY:
        return "the probes scatter too much for an interval of 99 %"
    return f"a ratio takes {FEWEST_BLOCKS} samples of both, not {of.others[0][1].blocks}"


def _join_unproven(answers: Sequence[Answer], changing: Sequence[str]) -> str:
    """Returns one text for answers that prove nothing for the same reason: which engine had the best figures, and
    where."""
    places = group_values(((of.best.label, _phases(of)), _place(of, changing)) for of in answers)
    best = [f"{engine} in {what}: {'; '.join(filter(None, where))}" for (engine, what), where in places.items()]
    lines = [f"{text.removesuffix(': ')}." for text in best]
    exceptions = dict.fromkeys(text for of in answers for text in (*_exceptions(of), *_describe_tiers(of)))
    return " ".join([f"The best figures prove nothing: {_explain_unproven(answers[0])}.", *lines, *exceptions])


def _describe_tiers(of: Answer) -> list[str]:
    if len(of.tiers) < 2:
        return []
    return [f"{display.ACROSS[0].upper()}{display.ACROSS[1:]}."]


def _at_this_tier(of: Answer) -> str:
    if display.tiers(of.tiers):
        return " at this tier"
    return ""


def _name_place(of: Answer | LimitedRows, changing: Sequence[str]) -> str:
    """Returns 'At tier power with records=10, '. Empty if there is neither a tier nor a varying parameter."""
    params = units.params({name: of.params[name] for name in changing})
    tier = display.tiers(of.tiers)
    if tier and len(of.tiers) == 1:
        at_tier = f"at {tier}"
    else:
        at_tier = tier
    if of.reported_by:
        tool = f"as reported by {of.reported_by}"
    else:
        tool = ""
    where = display.join_parts(at_tier, params and f"with {params}", tool, between=" ")
    if where:
        return f"{where[0].upper()}{where[1:]}, "
    return ""


def _best(of: Answer) -> str:
    what = _phases(of) + ("" if of.metric is THROUGHPUT else f" by {of.metric.title}")
    best = of.best.label
    if not of.others:
        if of.limited:
            return f"{_phases(of)}: only {best} can be ranked{_at_this_tier(of)}, and no other engine"
        return f"{_phases(of)}: {best} has no competitor{_at_this_tier(of)}"
    near = _near_best(of)
    second = of.others[0][1]
    if why := _explain_unproven(of):
        return f"{best} had the best figures in {what}, which proves nothing: {why}"
    if not near:
        return f"{best} is the fastest in {what}: {_describe_lead(of)}"
    names, blocks = join_names([best, *(cell.label for cell, _ in near)]), f"{second.blocks} samples of each"
    if all(v.kind == "alike" for _, v in near):
        most = units.percent(max(v.bound or 0.0 for _, v in near), math.ceil)
        difference = f"no difference from {best} is larger than {most} ({SURE}; {blocks})"
        return f"{names} are equally fast in {what}: {difference}"
    widest = max((v for _, v in near if v.kind == "unclear"), key=lambda v: v.more or MOST_MORE)
    return f"{what}: no clear winner between {names} ({_samples_needed(widest)} would tell; {blocks})"


def _describe_lead(of: Answer) -> str:
    """Returns by how much the best engine is ahead of the second."""
    cell, inverse = of.others[0]
    if inverse.ratio is not None and inverse.low is not None and inverse.high is not None:
        low, high = 1 / inverse.high, 1 / inverse.low
        inverse = Verdict(
            kind="faster", ratio=1 / inverse.ratio, low=low, high=high, bound=low - 1, blocks=inverse.blocks
        )
    text, blocks = _at_least_faster(inverse, cell.label), f"{inverse.blocks} samples of each"
    if inverse.low is None or inverse.high is None or units.is_wide(inverse.low, inverse.high):
        return f"{text} ({SURE}; {blocks})"
    return f"{text} ({point(inverse)} times as fast, {SURE} of {interval(inverse)}; {blocks})"


def _at_least_faster(of: Verdict, other: str) -> str:
    """Returns 'at least 12 % faster than sqlite'."""
    if of.low is not None and of.low >= TWICE:
        return f"at least {units.factor(of.low)} times as fast as {other}"
    return f"{_least(of.bound)} faster than {other}"


def _near_best(of: Answer) -> list[tuple[Cell, Verdict]]:
    """Returns the engines with enough samples that are not shown to be slower than the best."""
    return [(cell, v) for cell, v in of.others if v.kind in ("alike", "unclear") and v.blocks >= FEWEST_BLOCKS]


def _describe_others(of: Answer) -> list[str]:
    if of.others and of.others[0][1].blocks < FEWEST_BLOCKS:
        return []
    slower = [cell.label for cell, v in of.others if v.kind == "slower"]
    if slower and _near_best(of):
        sentences = [f"Slower than {of.best.label}: {join_names(slower)}."]
    else:
        sentences = []
    if few := [cell.label for cell, v in of.others if v.blocks < FEWEST_BLOCKS]:
        sentences.append(f"Too few samples to rank: {join_names(few)}.")
    return sentences


def _exceptions(of: Answer) -> list[str]:
    by_engine = group_values((comparison.engine.label, comparison) for comparison in of.elsewhere)
    parts = []
    for engine, faster in by_engine.items():
        least = min((c.verdict for c in faster), key=lambda v: v.bound or 0.0)
        parts.append(
            f"{engine} is {_at_least_faster(least, of.best.label)} in {join_names([c.phase for c in faster])}"
        )
    sentences = [f"But {'; '.join(parts)}."] if parts else []
    for table in of.set_aside:
        if table.warm:
            why = "not proven cold for"
        elif table.suspicious:
            why = "with too many empty or equal answers of"
        else:
            why = "where the load generator was the limit of"
        names = join_names([cell.label for cell in table.warm or table.suspicious or table.limited])
        sentences.append(f"Not counted: {table.phase}, {why} {names}.")
    if of.warm:
        sentences.append(f"Not proven cold there, and not compared: {join_names([cell.label for cell in of.warm])}.")
    if of.left_out:
        names = join_names([cell.label for cell in of.left_out])
        sentences.append(f"Not compared, because a phase is missing: {names}.")
    return sentences


def _phases(of: Answer) -> str:
    """Returns the phases with their temperature, which is the same for all of them."""
    count, neither = len(of.phases), of.temperature == "none"
    if count > NAMED:
        if neither:
            return f"the {count} phases from {of.phases[0]} to {of.phases[-1]} together"
        return f"the {count} {of.temperature} phases together"
    if count == 1:
        text = of.phases[0]
    else:
        text = f"{join_names(of.phases)} together"
    if neither:
        return text
    return f"{text} ({of.temperature})"
