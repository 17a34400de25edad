"""Lines above the tables of a run (how it was made, and on what machine), and below them: failures, explanations of
remarks, settings, tiers, rates and the machine's ceilings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from dyno.contracts.model import Tier, Value
from dyno.report.tables import display, units
from dyno.report.tables.display import join_names
from dyno.report.tables.sections import Section, first_lines
from dyno.report.tables.table import Group, Row, varying_params
from dyno.results import Attempt, Run, is_reference
from dyno.stats.agreement import judged_attempts
from dyno.stats.doubts import MEANINGS
from dyno.stats.machine import shares
from dyno.stats.summary import absences, group_values

CPU = "cpu: CPU time of all threads, for each item that the throughput counts"
APART = (
    "client, server: CPU time of their processes, for each item that the throughput counts; – for a server that used"
    " too few of the kernel's clock ticks"
)
MEMORY = (
    "memory: the most that was resident during the phase, of which the floor's is the harness's own; pages that"
    " processes share count in each"
)
CEILING_SHARES = (
    "of the flushes: operations of a phase that writes at tier power, divided by the flushes that one writer reaches"
    " alone; over 100 % if several operations share a flush. of the memory: bytes moved, divided by the memory's"
    " bandwidth. of one core: CPU time of client and server"
)
MOST_RATES = 20
MOST_SETTINGS = 8
MOST_CEILINGS = 40
"""Maximum number of lines of each kind. The tables and the run file have all of them."""
EXCERPT = 12
"""Maximum number of printed lines of a failed trial's output. The run file has more."""
BEHIND = "overload"
"""Code of the doubt about a row that did not keep its rate."""


# -- remarks and failures -----------------------------------------------------------------------------------


def legend(of: Iterable[Group], used: bool = True) -> list[str]:
    """Returns a line for each doubt and each caveat of the rows. `used`: also explains the columns of CPU time and
    memory, if any row has a figure."""
    rows = [row for group in of for row in group.rows]
    codes = {doubt.code for row in rows for doubt in row.doubts}
    lines = [text for code, text in MEANINGS.items() if code in codes] + caveats(rows)
    if used and any(row.summary.server is not None for row in rows):
        lines.append(APART)
    elif used and any(row.summary.client is not None for row in rows):
        lines.append(CPU)
    if used and any(row.summary.client_peak_bytes is not None for row in rows):
        lines.append(MEMORY)
    return lines


def caveats(rows: Iterable[Row]) -> list[str]:
    """Returns a line for each caveat, with all engines that declare it."""
    declared = ((each, row.summary.cell.engine) for row in rows for each in row.summary.caveats)
    lines = []
    for (code, text), of in group_values(((each.code, each.text), engine) for each, engine in declared).items():
        *others, last = dict.fromkeys(of)
        # The text of a caveat is in the singular.
        if others:
            subject = f"each of {', '.join(others)} and {last}"
        else:
            subject = last
        lines.append(f"{code}: {subject} {text}")
    return lines


def absent(run: Run) -> list[str]:
    """Returns a line for each phase that makes no sense for an engine."""
    return list(dict.fromkeys(f"{a.phase}: {a.cell.label} {a.why}" for a in absences(run)))


def failures(of: Iterable[Group]) -> list[str]:
    """Returns a line for each row without a number, with the whole reason. If a row has the same reason in several
    phases, these share a line."""
    failed = ((group, row) for group in of for row in group.rows if not row.summary.valid)
    phases = group_values(
        ((row.name, display.tier(group.tier), row.summary.why), group.phase) for group, row in failed
    )
    lines = []
    for (name, tier, why), where in phases.items():
        first, more = where[0], len(set(where)) - 1
        lines.append(f"{display.join_parts(name, f'{first} and {more} more' if more else first, tier)}: {why}")
    return lines


def failed_attempts(run: Run) -> Iterator[Section]:
    """Yields each attempt that failed, or in which operations failed or answers were wrong, in the order of the run.
    The last section has their number."""
    reasons = [(attempt, _reasons(attempt)) for attempt in judged_attempts(run)]
    shown = [(attempt, lines) for attempt, lines in reasons if lines]
    if not shown:
        yield Section("", lines=[f"No attempt failed, of {len(run.attempts):,}."])
        return
    changing = varying_params(run)
    for attempt, lines in shown:
        cell = run.cells[attempt.cell]
        place = f"block {attempt.block + 1}", f"attempt {attempt.attempt + 1}"
        title = display.join_parts(display.engine(cell.label, cell.tier), units.params(cell.params, changing), *place)
        output = [line.rstrip() for line in (attempt.output or "").splitlines() if line.strip()]
        yield Section(title, lines=lines, legend=[f"| {line}" for line in output[-EXCERPT:]])
    failed = sum(not attempt.sound for attempt, _ in shown)
    summary = [f"{failed:,} of {len(run.attempts):,} attempts failed."]
    if others := len(shown) - failed:
        summary.append(f"Operations failed in {others:,} more.")
    yield Section("", lines=summary)


def _reasons(attempt: Attempt) -> list[str]:
    reasons = [f"{sample.phase}: void: {sample.void}" for sample in attempt.samples if sample.void]
    reasons += [
        f"{sample.phase}: {sample.errors:,} of {sample.operations:,} operations failed, the first: "
        f"{sample.first_error or 'unknown error'}"
        for sample in attempt.samples
        if sample.errors
    ]
    if attempt.outcome != "ok":
        where = attempt.phase or "before the first phase"
        reasons.append(f"{where}: {attempt.outcome}: {attempt.why or 'unknown reason'}")
    return reasons


def loops(run: Run) -> str | None:
    """Returns the loops that measured, and their cost; None if the run file lacks them."""
    costs: dict[str, list[float]] = {}
    usual = run.header.host.python.version
    for attempt in run.attempts:
        if attempt.loop is not None:
            version = attempt.loop.get("python", usual)
            if version == usual:
                where = ""
            else:
                where = f" in Python {version}"
            name = f"the {attempt.loop['name']} loop{where} ({attempt.loop['clock']}"
            costs.setdefault(name, []).append(attempt.loop["operation_ns"])
    return " and ".join(f"{name}, {median(ns):.0f} ns an operation)" for name, ns in costs.items()) or None


# -- rates and settings -------------------------------------------------------------------------------------


def rates(run: Run, of: Sequence[Group], names: Mapping[str, str]) -> list[str]:
    """Returns a line for each phase, tier and combination of parameters: whether each engine kept the requested rate,
    and its response time. `names`: printed names of phases."""
    others = [name for name in varying_params(run) if name != "rate"]
    rows_by_place: dict[str, list[Row]] = {}
    for row in (row for group in of for row in group.rows):
        asked, timed = row.summary.cell.params.get("rate"), row.summary.response_ns["p50"] is not None
        if not row.summary.valid or not timed or row.summary.cell.floor or not isinstance(asked, (int, float)):
            continue
        cell, phase = row.summary.cell, names.get(row.summary.phase, row.summary.phase)
        params = units.params(cell.params, others)
        where = display.join_parts(display.tier(cell.tier), params and f"with {params}", between=" ")
        rate = f"{units.rate(float(asked))} {row.summary.unit}/s"
        rows_by_place.setdefault(display.join_parts(f"At {rate} in {phase}", where), []).append(row)
    lines = []
    for place, rows in list(rows_by_place.items())[:MOST_RATES]:
        held, missed = list[str](), list[str]()
        for row in rows:
            times = row.summary.response_ns
            name = "p50" if times["p99"] is None else "p99"
            text = f"{row.summary.cell.label} (response {name} {units.duration(times[name])}"
            behind = next((doubt.text for doubt in row.doubts if doubt.code == BEHIND), None)
            (held if behind is None else missed).append(f"{text})" if behind is None else f"{text}: {behind})")
        parts = [f"{verb} by {join_names(of)}" for verb, of in (("held", held), ("not held", missed)) if of]
        lines.append(f"{place}: {'; '.join(parts)}.")
    return lines


def differing_settings(run: Run) -> list[str]:
    """Returns a line for each effective setting that differs between rows of an engine at one tier: 'sqlite:
    synchronous is normal with sqlite:set.synchronous=normal and off with sqlite'. Rows without the setting are not in
    its line."""
    rows: dict[tuple[str, Tier | None], dict[str, Mapping[str, Value | None]]] = {}
    for attempt in run.attempts:
        cell = run.cells[attempt.cell]
        if attempt.settings and not cell.floor:
            rows.setdefault((cell.engine, cell.tier), {})[cell.label] = attempt.settings
    lines: dict[str, None] = {}
    for (engine, _), settings in rows.items():
        for name in dict.fromkeys(name for of in settings.values() for name in of):
            values = {row: of[name] for row, of in settings.items() if name in of}
            texts = {row: "not known" if v is None else str(units.yes_no(v)) for row, v in values.items()}
            if len(set(texts.values())) > 1 or len(texts) < len(settings):
                rows_by_text = group_values((text, row) for row, text in texts.items())
                values_in_words = [f"{text} with {join_names(of)}" for text, of in rows_by_text.items()]
                several = len(rows_by_text) < len(texts)
                whole = "; ".join(values_in_words) if several else join_names(values_in_words)
                lines[f"{engine}: {name} is {whole}"] = None
    return list(lines)[:MOST_SETTINGS]


def evidence(run: Run) -> list[str]:
    """Returns a line for each engine and tier that `dyno crash` had tested on the machine before the run began."""
    lines = []
    for row in run.header.crashed or ():
        settings = units.params({name: units.yes_no(value) for name, value in row.settings.items()})
        models = {"cut": row.model, "device": row.system}
        facts = [f"declared {settings}" if settings else "", f"traced: {row.traced}" if row.traced else ""]
        for fault, tally in row.faults.items():
            if tally is not None:
                if models.get(fault):
                    model = f" ({models[fault]})"
                else:
                    model = ""
                facts.append(
                    f"{fault} {units.count(tally.count)}{model}: {units.outcomes(tally.outcomes, tally.lost)}"
                )
        name = f"{row.engine}, tier {row.tier}" + (f" ({row.version})" if row.version else "")
        lines.append(f"crashed here: {name}: {'; '.join(filter(None, facts))}")
    return lines


def ceilings(run: Run) -> str:
    """Returns the machine's ceilings: 'at most 5,400 flushes/s, 47.3 GB/s of memory, 391 prime searches/s on a core'.
    Empty if they were not probed."""
    measured = run.header.host.ceilings
    if measured is None:
        return ""
    flushes = measured.flushes_per_second
    memory = measured.memory_bytes_per_second
    core = measured.core_events_per_second
    parts = [
        f"{units.rate(flushes)} flushes/s" if flushes else "",
        f"{memory / 1e9:.1f} GB/s of memory" if memory else "",
        f"{units.rate(core)} prime searches/s on a core" if core else "",
    ]
    text = ", ".join(filter(None, parts))
    if text:
        return f"at most {text} (probed {measured.probed or 'once'})"
    return ""


def ceiling_shares(run: Run) -> Iterator[str]:
    """Yields a line for each row that has any share: 'lmdb, insert: 82 % of the flushes, 31 % of one core'."""
    changing = varying_params(run)
    for share in shares(run):
        of = ((share.flushes, "the flushes"), (share.memory, "the memory"), (share.cores, "one core"))
        if text := ", ".join(f"{value:.0%} of {name}" for value, name in of if value is not None):
            cell = share.row.cell
            tier, params = display.tier(cell.tier), units.params(cell.params, changing)
            yield f"{display.join_parts(cell.label, share.row.phase, tier, params)}: {text}"


def ceiling_sections(run: Run) -> list[Section]:
    """Returns a section with the rows' shares of the ceilings; empty if the machine was not probed."""
    if run.header.host.ceilings is None:
        return []
    lines = first_lines(list(ceiling_shares(run)), MOST_CEILINGS)
    return [Section("Of this machine's own ceilings", lines=lines, legend=[CEILING_SHARES])]


# -- above the tables ---------------------------------------------------------------------------------------

AWAKE = "cores kept awake"


def engines(run: Run) -> list[str]:
    """Returns the labels of the engines, without null engines."""
    return list(dict.fromkeys(cell.label for cell in run.cells if not cell.floor))


def fixed_params(run: Run) -> str:
    """Returns the parameters that are the same in every cell, as text."""
    changing = varying_params(run)
    return units.params({name: value for name, value in run.cells[0].params.items() if name not in changing})


def trials(run: Run, how: str = "; median and 95 % interval over trials") -> str:
    """Returns the number of ended trials, and `how` they are summarised."""
    trials_of = Counter(attempt.cell for attempt in run.final())
    ended = max(trials_of.values(), default=0)
    if run.limits:
        return f"at most {max(ended - 1, 0)} probes of each row, each a run in a fresh process, in shuffled order"
    # Null engines among others have fewer.
    fewest = min(trials_of[at] for at, cell in enumerate(run.cells) if not is_reference(run.cells, cell))
    number = f"{fewest} to {ended}" if fewest < ended else ended
    return f"{number} of {run.blocks} trials of each row{how}"


def describe_progress(run: Run) -> str:
    """Returns the progress of an incomplete run; empty if it is complete."""
    if run.complete:
        return ""
    return "{} of {} trials have ended".format(*run.progress)


def length(run: Run) -> str:
    """Returns how long a phase is measured, the memory limit, and whether cores were kept awake."""
    plan = run.plan
    if plan.duration is None:
        text = f"{plan.budget:g} s at most a phase"
    else:
        text = f"{plan.duration:g} s a phase"
    if plan.warmup:
        text += f" after {plan.warmup:g} s of warm-up"
    if plan.confine is not None:
        text += f", trials confined to {units.size(plan.confine)} of memory"
    if plan.awake:
        return f"{text}, {AWAKE}"
    return text


def peaks(run: Run) -> str:
    """Returns the peak of each row's anonymous memory if trials were confined; else empty."""
    peak: dict[str, int] = {}
    for attempt in run.final() if run.plan.confine is not None else ():
        cell, used = run.cells[attempt.cell], attempt.resources.get("peak_anonymous_bytes")
        if used is not None and not cell.floor:
            peak[cell.label] = max(peak.get(cell.label, 0), used)
    text = ", ".join(f"{name} {units.size(used)}" for name, used in peak.items())
    return text and f"Peak of anonymous memory (not backed by a file): {text}"


def machine(run: Run) -> str:
    """Returns the machine's parts, and its ceilings if they were probed."""
    host = run.header.host
    text = (
        f"{host.cpu.model or 'unknown CPU'}, {host.cpu.available_cores or '?'} cores,"
        f" {units.size(host.memory.total_bytes)} of memory, {host.filesystem.type or 'unknown file system'}"
    )
    most = ceilings(run)
    if most:
        return f"{text}; {most}"
    return text


def versions(run: Run) -> str:
    """Returns the versions of Dyno and of the engines: 'dyno 1.0, lmdb: LMDB 0.9.31'."""
    measured = [(run.cells[each.cell], each.version) for each in run.attempts if each.version]
    texts = dict.fromkeys(f"{cell.engine}: {version}" for cell, version in measured if not cell.floor)
    return "; ".join([f"dyno {run.header.dyno or units.UNKNOWN}", *sorted(texts)])


def maker(run: Run) -> str | None:
    """Returns the date, version and loop of the measurement; None if the run file has none of them."""
    created = run.header.created
    version = run.header.dyno
    parts = (created and created[:10], version and f"dyno {version}", loops(run))
    return ", ".join(part for part in parts if part) or None
