"""A run on a terminal, as Markdown for a README or an issue, and as HTML for a notebook."""

import shlex
from collections.abc import Sequence
from html import escape

from rich.console import Console
from rich.text import Text

from dyno.report.tables import capacities, display, notes, overview, sections, sweeps, table, wide, wording
from dyno.report.tables.sections import Section, bullets, code, plain
from dyno.report.tables.table import Group, groups
from dyno.results import Run
from dyno.stats.doubts import machine

BY_PHASE = "`dyno show RUN --by-phase` has a table for each phase, with intervals, latencies and the floor"


def render(run: Run, console: Console, by_phase: bool = False, whole: bool = False) -> None:
    """Prints a run: its heading, an overview and the answers. `whole`: instead of the overview, prints a table for
    each phase and tier, with all doubts. `by_phase`: prints these tables even if the suite has a table of its own."""
    of = groups(run)
    if run.limits:
        _render_capacities(run, of, console)
        return
    own = [] if by_phase else wide.tables(run, of)
    own_sections = list(wide.sections(own))
    only_own = bool(own) and not wide.is_shown_below(run)
    detailed = only_own or whole or by_phase
    # The samples of a baseline of the pytest plug-in, which has no preset, share a process.
    separate = run.recorded.get("preset", "") is not None
    if separate:
        order = ", each a run in a fresh process, in shuffled order"
    else:
        order = ", in one process"
    # The overview has no intervals.
    how = [] if detailed else [f"{order}; figures are medians"]
    console.print(Text(f"{run.plan.suite}: {notes.fixed_params(run)}", "bold"))
    console.print(f"{notes.trials(run, *how)}; {notes.length(run)}; seed {run.plan.seed}")
    console.print(notes.machine(run))
    if memory := notes.peaks(run):
        sections.print_sentence(Text(memory), console)
    if measured := notes.loops(run):
        console.print(f"Measured by {measured}")
    if run.commit:
        console.print(f"Started from commit {run.commit}")
    # `names`: printed names of phases, see `wording.answers`.
    names, remarks = ({} if detailed else overview.phase_aliases(run)), list[str]()
    if detailed and not only_own:
        sections.render(table.sections(run, of), console)
    parts = [*([] if detailed else overview.sections(run)), *own_sections]
    parts += [] if only_own else sweeps.sections(run)
    parts += [*sweeps.scaling_sections(run), *(notes.ceiling_sections(run) if detailed else [])]
    if detailed:
        remarks = [*_remarks(run, of, own), *([BY_PHASE] if only_own else [])]
    answers = wording.answers(run, names)
    if any(wording.SURE in answer for answer in answers):
        sure = [wording.MEANS]
    else:
        sure = []
    below = {
        "In short": notes.rates(run, of, names) + answers + sure,
        "Settings that differ": notes.differing_settings(run),
        "No number": notes.failures(of),
        "Not measured": [*notes.absent(run), *(run.header.left_out or ())],
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
        hints = {
            "Intervals, latencies, CPU time, memory and every doubt": f"dyno show {path} --all",
            "Where the time goes, and why rows differ": f"dyno why {path}",
            "Charts, on one page": f"dyno report {path}",
        }
        lines = "\n".join(f"{what}: {command}" for what, command in hints.items())
        console.print(Text(f"\n{lines}"), soft_wrap=True)


def _render_capacities(run: Run, of: Sequence[Group], console: Console) -> None:
    console.print(Text(f"{run.plan.suite}: {notes.fixed_params(run)}", "bold"))
    console.print(
        f"each probe a run in a fresh process, in shuffled order; {notes.length(run)}; seed {run.plan.seed}"
    )
    console.print(notes.machine(run))
    if run.commit:
        console.print(f"Started from commit {run.commit}")
    answers = wording.answers(run, {})
    below = {
        "In short": answers,
        "Settings that differ": notes.differing_settings(run),
        "No capacity": notes.failures(of),
        "Remarks": [*notes.legend(of, used=False), *capacities.legend(run)],
        "This machine": [f"{finding.text} ({finding.remedy})" for finding in machine(run)],
    }
    parts = [*capacities.sections(run, of), *(Section(title, lines=lines) for title, lines in below.items() if lines)]
    sections.render(parts, console, aligned=False)
    if not run.complete:
        console.print(Text("\nNot complete: some searches go on", "bold red"))


def _remarks(run: Run, of: Sequence[Group], own: Sequence[wide.Wide]) -> list[str]:
    """Returns the explanations of remarks and columns below the tables. `own`: the suite's own tables."""
    if own and not wide.is_shown_below(run):
        return notes.legend([group for group in of if group.phase in wide.phases(run)], used=False) + wide.legend(run)
    return notes.legend(of) + (wide.legend(run) if own else [])


def as_markdown(run: Run) -> str:
    """Returns the plan and the machine, the answers, a table for each phase and tier, and all doubts. A suite's own
    table replaces those by phase, unless its layout keeps them."""
    of = groups(run)
    own = wide.tables(run, of)
    by_phase = [] if own and not wide.is_shown_below(run) else table.document_sections(run, of)
    facts = [
        f"plan: {code(notes.fixed_params(run))}; {notes.length(run)}; seed {run.plan.seed}",
        f"machine: {plain(notes.machine(run))}",
        plain(notes.peaks(run)),
        f"measured: {plain(maker)}" if (maker := notes.maker(run)) is not None else "",
        f"started from commit {run.commit}" if run.commit else "",
    ]
    engines = plain(", ".join(notes.engines(run)))
    parts = [
        f"**{plain(run.plan.suite)}**: {engines}. {notes.trials(run)}.",
        bullets(filter(None, facts)),
        bullets(map(plain, wording.answers(run))),
        sections.markdown([*by_phase, *wide.sections(own)]).rstrip(),
        *([] if run.complete else [f"**Not complete**: {'{} of {} trials have ended'.format(*run.progress)}."]),
        bullets(map(plain, _notes(run, of, _remarks(run, of, own), notes.evidence(run)))),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_html(run: Run) -> str:
    of = groups(run)
    title = f"<p><b>{escape(run.plan.suite)}</b>: {escape(notes.trials(run))}.</p>"
    tables = sections.html(table.document_sections(run, of), _notes(run, of, _remarks(run, of, []), []))
    return "\n".join([title, sections.html_list(wording.answers(run)), tables])


def _notes(run: Run, of: Sequence[Group], remarks: Sequence[str], tiers: Sequence[str]) -> list[str]:
    return [
        *(f"no number: {line}" for line in notes.failures(of)),
        *(f"not measured: {line}" for line in notes.absent(run)),
        *dict.fromkeys(filter(None, (display.explain_tier(group.tier) for group in of))),
        *remarks,
        *tiers,
        *(f"this machine: {finding.text}" for finding in machine(run)),
    ]
