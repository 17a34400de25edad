"""Tables of machines: their ratios to each other, with a sentence on which to buy, and ratios of engines within each
machine. Machines are named by what differs between the names of their run files."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dyno.contracts.model import UsageError
from dyno.report.tables import display, units, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import varying_params
from dyno.report.tables.wording import LEVEL
from dyno.results import Run
from dyno.stats.compare import Comparison, Table, compare_with_baseline, tables
from dyno.stats.costs import Prices, hour_price
from dyno.stats.machine_choice import Choice, Decision, LeftOut, Line, Machine, Work, choose, decide, machines
from dyno.stats.metric import CAPACITY, THROUGHPUT
from dyno.stats.summary import group_values
from dyno.stats.verdict import MARGIN, MOST_MORE, Verdict

WORDS = ("suite", "conditions", "rows", "verdict", "for the price")
MEANING = (
    "A ratio is the geometric mean over the rows that all these machines have, at the same tier and with the same"
    " parameters. It holds for these machines on these days: others of their kind may differ."
)


def by_machine(runs: Sequence[Run], prices: Prices | None = None) -> Iterator[Section]:
    """Yields the table of machines, and a table of engines for each phase, tier and combination of parameters. Raises
    UsageError for a single machine, and for machines that have nothing in common."""
    of = machines(runs)
    if len(of) < 2:
        raise UsageError("--by machine needs the run files of two machines or more")
    choice, engines = choose(of), list(engines_by_machine(of))
    if not choice.lines and not engines:
        raise UsageError(
            "--by machine needs runs of one plan on two machines or more: "
            f"{display.join_names([machine.name for machine in of])} have no row with a number in common"
        )
    yield _section(choice, prices)
    yield from engines


# -- machines against each other ----------------------------------------------------------------------------


def _section(of: Choice, prices: Prices | None) -> Section:
    names = [machine.name for machine in of.machines]
    if prices is not None:
        hours = {m.name: hour_price(m.runs[0], prices, [m.name]) for m in of.machines}
    else:
        hours = {}
    known = {name: hour for name, hour in hours.items() if hour}
    price = known if len(known) == len(names) else None
    level = wording.level(of.confidence)
    heads = ["suite", "conditions", "rows", *names, "verdict", *(["for the price"] if price else [])]
    rows = []
    for line in of.lines:
        base, *others = line.speeds
        verdicts = {name: line.verdict(name, base, of.confidence) for name in others}
        ratios = {base: "1", **{name: " ".join(wording.ratio(each)) for name, each in verdicts.items()}}
        cells = [line.work.suite, _work(line.work), _rows(line), *(ratios.get(name, units.UNKNOWN) for name in names)]
        cells.append(_verdicts(verdicts))
        if price:
            per_price = {n: line.verdict(n, base, of.confidence, price[n] / price[base]) for n in others}
            cells.append(_verdicts(per_price))
        rows.append(cells)
    if prices is not None:
        amounts = [units.money(hours.get(name), prices.currency) for name in names]
        rows.append(["price of an hour", "", "", *amounts, *[""] * (len(heads) - 3 - len(names))])
    lines = [_sentence(of, prices is not None, price)]
    if of.versions:
        lines.append(f"The versions of {display.join_names(of.versions)} differ: a ratio may be theirs.")
    lines += map(_left_out, of.left_out)
    if rows:
        remark = f"speed against {names[0]}, with [{level}]"
    else:
        remark = ""
    return Section(
        "Machines", remark, heads, rows, left=WORDS, keys=("suite", "conditions"), lines=lines, legend=[MEANING]
    )


def _work(of: Work) -> str:
    if of.temperature == "none":
        temperature = ""
    else:
        temperature = of.temperature
    if of.metric in (THROUGHPUT, CAPACITY):
        by = ""
    else:
        by = f"by {of.metric.title}"
    return display.join_parts(of.row, display.tier(of.tier), temperature, by)


def _rows(of: Line) -> str:
    """Returns the number of rows, and the least and the most of their ratios: '12, 0.91 – 2.30'."""
    number = len(of.rows) // len(of.speeds)
    if number == 1:
        return "1"
    ends = [each for name, ratios in of.ratios.items() if name != next(iter(of.ratios)) for each in ratios]
    return f"{number}, {units.ratio(min(ends))} – {units.ratio(max(ends))}"


def _verdicts(of: Mapping[str, Verdict]) -> str:
    texts = {name: wording.verdict(verdict) for name, verdict in of.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _sentence(of: Choice, priced: bool, price: Mapping[str, float] | None) -> str:
    """Says which machine to buy, or that one can't tell, with the reasons."""
    decision, names = decide(of, price), [machine.name for machine in of.machines]
    how = "For its price, " if price else ""
    if priced and not price:
        unpriced = " Not every machine has a price: this is by speed alone."
    else:
        unpriced = ""
    unpriced = unpriced or ("" if price else " Prices are not counted: --prices FILE.")
    if decision.best is not None:
        return _capital(f"{how}buy {decision.best}: {_describe_lead(of, decision, decision.best)}.{unpriced}")
    if decision.equal:
        which = "speed"
        if price:
            which = "speed for the price"
        return (
            f"Buy any of {display.join_names(names)}: none differs in {which} by over {MARGIN * 100:g} %.{unpriced}"
        )
    reasons = [f"{name} is {_describe_lead(of, decision, name)}" for name in names if decision.ahead[name]]
    if decision.unclear:
        wait = max((verdict for _, verdict in decision.unclear), key=lambda verdict: verdict.more or MOST_MORE)
        works = [work for work, _ in decision.unclear]
        reasons.append(f"no clear winner in {_names(of, works)}, which {wording.needs(wait)}")
    if decision.alike:
        reasons.append(f"no difference in {_names(of, decision.alike)}")
    if not of.lines:
        reasons.append("no work was measured on several of them")
    elif not reasons:
        reasons.append("no machine is the fastest in work that all of them have done")
    return _capital(f"{how}can't tell which to buy: {'; '.join(reasons)}.{unpriced}")


def _describe_lead(of: Choice, decision: Decision, name: str) -> str:
    """Returns 'faster by at least 31 % in cpu and records, no different in memory'. The figure holds for all of the
    work."""
    parts = []
    if ahead := decision.ahead[name]:
        least = min((verdict for _, verdict in ahead), key=lambda verdict: verdict.low or 0.0)
        parts.append(f"{wording.verdict(least)} in {_names(of, [work for work, _ in ahead])}")
    if name == decision.best and decision.alike:
        parts.append(f"no different in {_names(of, decision.alike)}")
    return ", ".join(parts) or "nowhere slower than another, and faster than each in some work"


def _names(of: Choice, works: Sequence[Work]) -> str:
    """Returns 'cpu and records tier power', or the number of many. A suite with one line needs no more than its
    name."""
    if len(works) > wording.NAMED:
        return f"{len(works)} of the {len(of.lines)} lines"
    lines = Counter(line.work.suite for line in of.lines)
    names = [display.join_parts(w.suite, "" if lines[w.suite] == 1 else _work(w), between=" ") for w in works]
    return display.join_names(names)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _left_out(of: LeftOut) -> str:
    """Returns 'Left out: volume on there, all rows: no figure to compare with from here'."""
    names = display.join_names([f"{row.phase} {row.cell.label}" for row in of.rows])
    if of.whole:
        which = "all rows"
    else:
        which = f"{len(of.rows)} row{'s' * (len(of.rows) != 1)} ({names})"
    if of.other_tier:
        what = "only figures of another tier"
    else:
        what = "no figure to compare with"
    why = of.why or f"{what} from {display.join_names(of.lacking)}"
    return f"Left out: {of.suite} on {of.machine}, {which}: {why}."


# -- engines within each machine ----------------------------------------------------------------------------


def engines_by_machine(of: Sequence[Machine], margin: float = MARGIN) -> Iterator[Section]:
    """Yields a table for each phase, tier and combination of parameters: each engine's ratio to the first engine of
    the plan, on each machine. No ratio has figures of two machines. Tables with a single engine or machine are left
    out, and named at the end."""
    comparable: dict[tuple[str, ...], dict[str, tuple[Table, list[Comparison]]]] = {}
    for machine in of:
        for run in machine.runs:
            for table in tables(run):
                first = next((cell.row for cell in run.cells if cell.row in table.places), None)
                params = units.params(table.params, varying_params(run))
                key = run.plan.suite, table.phase, display.tiers(table.tiers), params
                comparable.setdefault(key, {})[machine.name] = table, compare_with_baseline(table, first, margin)
    several = len({suite for suite, *_ in comparable}) > 1
    alone = list[tuple[str, str]]()
    sections = list[Section]()
    for (suite, *place), of_machine in comparable.items():
        title = display.join_parts(suite * several, *place, between="  ")
        if len(of_machine) < 2:
            alone.append((f"only on {next(iter(of_machine))}", suite))
        elif not any(comparisons for _, comparisons in of_machine.values()):
            alone.append(("only one engine has a number", suite))
        else:
            sections.append(_engines(title, of_machine))
    yield from sections
    lines = [
        f"No ratios of engines in {count} table{'s' * (count != 1)} of {suite}: {why}."
        for (why, suite), count in Counter(alone).items()
    ]
    if sections and lines:
        yield Section("", lines=lines)


def _engines(title: str, of_machine: Mapping[str, tuple[Table, list[Comparison]]]) -> Section:
    engines: dict[str, dict[str, Comparison]] = {}
    for machine, (_, comparisons) in of_machine.items():
        for each in comparisons:
            engines.setdefault(each.engine.label, {})[machine] = each
    base = next(each.baseline.label for _, comparisons in of_machine.values() for each in comparisons)
    rows = [
        [
            engine,
            *(" ".join(wording.ratio(of[name].verdict)) if name in of else units.UNKNOWN for name in of_machine),
            _agreement(of),
        ]
        for engine, of in engines.items()
    ]
    remark = f"against {base} on the same machine, with [{LEVEL}]"
    return Section(title, remark, ["engine", *of_machine, "verdict"], rows, left=["engine", "verdict"])


def _agreement(of: Mapping[str, Comparison]) -> str:
    """Returns the verdict of all machines in words, the weakest of them; or the verdicts by machine, if their kinds
    differ. Machines that can't tell contradict no other."""
    by_kind = group_values((each.verdict.kind, name) for name, each in of.items())
    texts = {kind: _weakest([of[name] for name in names]) for kind, names in by_kind.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    parts = [f"{text} on {display.join_names(by_kind[kind])}" for kind, text in texts.items()]
    contradiction = len(texts.keys() - {"unclear"}) > 1
    return f"{'machines differ: ' * contradiction}{'; '.join(parts)}"


def _weakest(of: Sequence[Comparison]) -> str:
    """Formats the verdict that claims least, of several of one kind: the smallest difference, or the largest that
    isn't ruled out."""

    def claim(each: Comparison) -> float:
        verdict = each.verdict
        if verdict.kind == "unclear":
            if verdict.more is None:
                return -math.inf
            return -verdict.more
        bound = verdict.bound or 0.0
        if verdict.kind == "alike":
            return -bound
        return bound

    least = min(of, key=claim)
    return wording.verdict(least.verdict, least.metric)
