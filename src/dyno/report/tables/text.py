"""Prints a run on a terminal."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.text import Text

from dyno.report.tables import heading, notes, overview, sections, sweeps, table, wide, wording
from dyno.report.tables.sections import Section
from dyno.report.tables.table import groups
from dyno.results import Run
from dyno.stats.doubts import machine

BY_PHASE = "`dyno show RUN --by-phase` has a table for each phase, with intervals, latencies and the floor"


def render(run: Run, console: Console, by_phase: bool = False, whole: bool = False) -> None:
    """Prints a run: its heading, an overview and the answers. `whole`: instead of the overview, prints a table for
    each phase and tier, with all doubts. `by_phase`: prints these tables even if the suite has a table of its own."""
    of = groups(run)
    own = [] if by_phase else wide.tables(run, of)
    own_sections = list(wide.sections(own))
    only_own = bool(own) and not wide.beside(run)
    detailed = only_own or whole or by_phase
    trials = heading.trials(run) if detailed else heading.runs(run)
    console.print(Text(f"{run.plan['suite']}: {heading.fixed(run)}", "bold"))
    console.print(f"{trials}; {heading.length(run)}; seed {run.plan['seed']}")
    console.print(heading.machine(run))
    if memory := heading.peaks(run):
        console.print(Text(memory), soft_wrap=True)
    if measured := notes.loops(run):
        console.print(f"Measured by {measured}")
    # `names`: printed names of phases, see `wording.answers`.
    names, remarks = ({} if detailed else overview.called(run)), list[str]()
    if only_own:
        shown = [group for group in of if group.phase in wide.phases(run)]
        parts = [*own_sections, *sweeps.scaling_sections(run), *notes.ceiling_sections(run)]
        remarks = notes.legend(shown) + wide.legend(run) + [BY_PHASE]
    elif detailed:
        sections.render(table.sections(run, of), console)
        parts = [*own_sections, *sweeps.sections(run), *sweeps.scaling_sections(run), *notes.ceiling_sections(run)]
        remarks = notes.legend(of) + notes.cpu_legend(of) + (wide.legend(run) if own else [])
    else:
        parts = [*overview.sections(run), *own_sections, *sweeps.sections(run), *sweeps.scaling_sections(run)]
    answers = wording.answers(run, names)
    sure = [wording.MEANS] if any(wording.SURE in answer for answer in answers) else []
    below = {
        "In short": notes.rates(run, of, names) + answers + sure,
        "Settings that differ": notes.differing_settings(run),
        "No number": notes.failures(of),
        "Not measured": notes.absent(run),
        "Remarks": remarks,
        "Tiers": notes.evidence(run),
        "This machine": [f"{finding.text} ({finding.remedy})" for finding in machine(run)],
    }
    parts += [Section(title, lines=lines) for title, lines in below.items() if lines]
    sections.render(parts, console, aligned=False)
    if not run.complete:
        ended, planned = run.progress
        console.print(Text(f"\nNot complete: {ended} trials of {planned} have ended", "bold red"))
    if not detailed:
        path = shlex.quote(str(run.path))
        more = f"\nIntervals, latencies, CPU time and every doubt: dyno show {path} --all"
        console.print(Text(f"{more}\nCharts, on one page: dyno report {path}"), soft_wrap=True)
