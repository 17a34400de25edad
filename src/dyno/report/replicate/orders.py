"""The published order of an experiment's systems next to this run's order."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from dyno.contracts.model import TIERS, Value
from dyno.published import Experiment
from dyno.published.claims import Claim, Finding
from dyno.published.order import ALIKE, FASTER
from dyno.report.replicate import gaps
from dyno.report.tables import display, units, wording
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.stats import findings
from dyno.stats.findings import CONFIRMED, Check
from dyno.stats.metric import estimate_metric, metric
from dyno.stats.summary import CellSummary, group_values, summarize

APART = "; "
LEGEND = (
    f">: faster, by a ratio with an interval of {wording.LEVEL}; ≈: no clear winner between the two; rows that Dyno"
    " doesn't compare, such as those of two tiers, are not in the same order"
)


class _Side(NamedTuple):
    """A system of the order and its row of the run."""

    name: str
    params: Mapping[str, Value]
    row: CellSummary


def published_order(experiment: Experiment) -> str:
    """Returns the published order; if there is none, the reason."""
    return experiment.order.published or f"none: {experiment.order.none}"


def order_here(experiment: Experiment, run: Run) -> tuple[str, list[str]]:
    """Returns this run's order, and why systems are not in it, each reason once. Rows that can't be compared are in
    separate orders. The order is unknown if no two rows can be compared."""
    if experiment.order.none:
        return units.UNKNOWN, []
    sides, reasons = _sides(experiment, run)
    chains = list[list[_Side]]()
    texts = list[str]()
    whys = dict[str, str]()
    for side in sides:
        for at, chain in enumerate(chains):
            check = _check(experiment, run, chain[-1], side)
            if check.ratio is not None:
                texts[at] += (FASTER if check.kind == CONFIRMED else ALIKE) + side.name
                chain.append(side)
                break
            same = chain[-1].row.cell.tier is side.row.cell.tier
            # A reason within a tier replaces one between two tiers.
            whys |= {each.name: check.why or "" for each in (chain[-1], side) if same or each.name not in whys}
        else:
            chains.append([side])
            texts.append(side.name)
    orders = list[str]()
    for chain, text in zip(chains, texts, strict=True):
        if len(chain) > 1:
            tier = display.tier(chain[0].row.cell.tier)
            orders.append(f"{text} ({tier})" if tier else text)
        else:
            reasons.append((whys.get(chain[0].name, "no other system was measured"), chain[0].name))
    lines = [
        f"{display.join_names(names)} {'is' if len(names) == 1 else 'are'} not in the order: {why}"
        for why, names in group_values(reasons).items()
    ]
    return APART.join(orders) or units.UNKNOWN, lines


def section(experiment: Experiment, run: Run) -> Section:
    order = experiment.order
    if order.none:
        return Section("Order", lines=[published_order(experiment)])
    text, reasons = order_here(experiment, run)
    place = f"{metric(order.metric).title} of {order.phase} {units.params(order.params)}".rstrip()
    if order.read_as:
        lines = [f"published: {order.read_as}"]
    else:
        lines = []
    lines += [f"here: {why}" for why in reasons]
    rows, heads = [("published", published_order(experiment)), ("here", text)], ("", "order")
    return Section("Order", place, heads, rows, left=heads, keys=heads[:1], lines=lines, legend=[LEGEND])


def _sides(experiment: Experiment, run: Run) -> tuple[list[_Side], list[tuple[str, str]]]:
    """Returns the systems that have a figure, by tier and fastest first; and for the others the reason and the
    name."""
    order, by = experiment.order, metric(experiment.order.metric)
    contenders = {each.name: each for each in experiment.contenders}
    ranked, reasons = list[tuple[int, float, _Side]](), list[tuple[str, str]]()
    names = order.sides or contenders
    for name in names:
        contender = contenders.get(name, experiment.contenders[0])
        params = order.sides.get(name, {})
        row = _row(run, order.phase, contender.engine, {**order.params, **params})
        if row is not None and row.valid:
            figure = estimate_metric(row, by)
        else:
            figure = None
        title = name if order.sides else contender.title
        if row is None or figure is None:
            if row is None:
                otherwise = findings.NOT_MEASURED
            else:
                otherwise = f"no trial recorded the {by.title}"
            why = gaps.reasons(run, [order.phase], contender.engine, otherwise)("")
            reasons.append((why, title))
            continue
        if by.inverse:
            speed = 1 / figure.median
        else:
            speed = figure.median
        ranked.append((TIERS.index(row.cell.tier), -speed, _Side(title, params, row)))
    return [side for *_, side in sorted(ranked, key=lambda each: each[:2])], reasons


def _row(run: Run, phase: str, engine: str, params: Mapping[str, object]) -> CellSummary | None:
    rows = (row for row in summarize(run) if row.phase == phase and row.cell.asked == engine)
    return next((row for row in rows if params.items() <= row.cell.params.items()), None)


def _check(experiment: Experiment, run: Run, faster: _Side, slower: _Side) -> Check:
    """Compares two rows by the rules of findings: as the claim that one is faster."""
    order = experiment.order
    one = faster.row.cell
    other = slower.row.cell
    params = {name: (value,) for name, value in one.params.items() if name not in faster.params}
    claim = Claim(
        one.asked,
        "faster",
        (other.asked,),
        (order.phase,),
        params,
        order.metric,
        fact=False,
        low=1.0,
        high=math.inf,
        of_params=faster.params,
        than_params=slower.params,
    )
    (result,) = findings.check(run, [Finding((claim,))])
    return result.checks[0]
