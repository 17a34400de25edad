"""A published chart of a rate over time, and published times of single passes, each next to this run's."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from dyno.published import Experiment, Passes, Timeline
from dyno.report.replicate import gaps
from dyno.report.tables import units, wide
from dyno.report.tables.sections import Section
from dyno.report.tables.table import groups
from dyno.results import Run
from dyno.stats.metric import BANDWIDTH, estimate_metric
from dyno.stats.summary import CellSummary, summarize

BARS = "▁▂▃▄▅▆▇█"


def sections(experiment: Experiment, run: Run) -> Iterator[Section]:
    if experiment.timeline is not None:
        yield from wide.sections(wide.tables(run, groups(run)))
        yield Section("", legend=wide.legend(run))
        yield _timeline_section(experiment.timeline, run)
    if experiment.passes is not None:
        yield _passes_section(experiment.passes, run)


def _rows_of(run: Run, phases: Sequence[str], params: Mapping[str, object]) -> Iterator[CellSummary]:
    """Yields the valid rows of these phases, in their order, with these values of parameters."""
    for row in sorted(summarize(run), key=lambda row: phases.index(row.phase) if row.phase in phases else -1):
        if row.phase in phases and row.valid and not row.cell.floor and params.items() <= row.cell.params.items():
            yield row


def _timeline_section(timeline: Timeline, run: Run) -> Section:
    first, last, steady = timeline.published
    rows = [("published", first, "", last, steady)]
    for row in _rows_of(run, [timeline.phase], timeline.params):
        for block, sample in zip(row.blocks, row.samples, strict=True):
            if rates := [point["operations"] / point["interval_ns"] * 1e9 for point in sample.series]:
                most = max(rates) or 1
                sketch = "".join(BARS[min(int(rate / most * len(BARS)), len(BARS) - 1)] for rate in rates)
                after = units.fact(sample.facts.get(timeline.after), "ns")
                if why := sample.facts.get(timeline.why):
                    text = f"not steady: {why}"
                else:
                    text = f"after {after}"
                rows.append((f"here, trial {block + 1}", units.rate(rates[0]), sketch, units.rate(rates[-1]), text))
    reason = gaps.reasons(run, [timeline.phase], otherwise="no trial recorded its rate over time")
    if len(rows) == 1:
        lines = [f"no figure of this run: {reason('')}"]
    else:
        lines = []
    heads = ("trial", "at first", "over time", "at the end", "steady")
    words = ["dyno", "plot", str(run.path), "--chart", "series", "--phase", timeline.phase]
    chart = f"as a chart: {shlex.join([*words, '-o', f'{timeline.phase}.svg'])}"
    return Section(timeline.title, "", heads, rows, (heads[0], *heads[2::2]), heads[:1], lines, [chart])


def _passes_section(passes: Passes, run: Run) -> Section:
    rows = [("published", *passes.published)]
    for row in _rows_of(run, passes.phases, passes.params):
        if rate := estimate_metric(row, BANDWIDTH):
            moved = row.samples[0].bytes
            low = rate.low or rate.median
            high = rate.high or rate.median
            time, far = units.long_duration(row.elapsed_ns or 0), units.long_duration(passes.to / rate.median * 1e9)
            ends = units.interval(passes.to / high * 1e9, passes.to / low * 1e9, units.long_duration)
            rows.append(("here", row.phase, units.size(moved), time, units.bandwidth(rate.median), far, ends))
    why = gaps.reasons(run, passes.phases, otherwise="no trial recorded its bandwidth")
    if len(rows) == 1:
        lines = [f"no figure of this run: {why('')}"]
    else:
        lines = []
    heads = ("", "phase", "size", "time", "bandwidth", f"{passes.named}, extrapolated", "[95 %]")
    note = "extrapolated, not measured: the time in proportion to the size, if the bandwidth stays the same"
    section = Section(passes.title, "", heads, rows, heads[:2], heads[:2], lines, [note], rigid=heads[:2])
    return gaps.state_gaps(section, why, [] if lines else ["[95 %]"])
