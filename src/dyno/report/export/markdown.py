"""A run as Markdown, for a README or an issue, and as HTML, for a notebook, with the same tables and notes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dyno.report.tables import heading, notes, row_titles, sections, table, wide, wording
from dyno.report.tables.sections import bullets, code, plain
from dyno.report.tables.table import Group, groups
from dyno.results import Run
from dyno.stats.doubts import machine


def as_markdown(run: Run) -> str:
    """Returns the plan and the machine, the answers, a table for each phase and tier, and all doubts. A suite's own
    table replaces those by phase, unless its layout keeps them."""
    of = groups(run)
    own = wide.tables(run, of)
    if own and not wide.beside(run):
        tables = list(wide.sections(own))
        remarks = notes.legend([group for group in of if group.phase in wide.phases(run)]) + wide.legend(run)
    else:
        tables = [*table.document_sections(run, of), *wide.sections(own)]
        remarks = notes.legend(of) + notes.cpu_legend(of) + (wide.legend(run) if own else [])
    facts = [
        f"plan: {code(heading.fixed(run))}; {heading.length(run)}; seed {run.plan['seed']}",
        f"machine: {plain(heading.machine(run))}",
        plain(heading.peaks(run)),
        f"measured: {plain(maker)}" if (maker := heading.maker(run)) is not None else "",
    ]
    engines = plain(", ".join(heading.engines(run)))
    parts = [
        f"**{plain(run.plan['suite'])}**: {engines}. {heading.trials(run)}.",
        bullets(filter(None, facts)),
        bullets(map(plain, wording.answers(run))),
        sections.markdown(tables).rstrip(),
        *([] if run.complete else [f"**Not complete**: {'{} of {} trials have ended'.format(*run.progress)}."]),
        bullets(map(plain, _notes(run, of, remarks, notes.evidence(run)))),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def as_html(run: Run) -> str:
    of = groups(run)
    title = f"<p><b>{escape(str(run.plan['suite']))}</b>: {escape(heading.trials(run))}.</p>"
    remarks = notes.legend(of) + notes.cpu_legend(of)
    tables = sections.html(table.document_sections(run, of), _notes(run, of, remarks, []))
    return "\n".join([title, sections.html_list(wording.answers(run)), tables])


def _notes(run: Run, of: Sequence[Group], remarks: Sequence[str], tiers: Sequence[str]) -> list[str]:
    return [
        *(f"no number: {line}" for line in notes.failures(of)),
        *(f"not measured: {line}" for line in notes.absent(run)),
        *dict.fromkeys(filter(None, (row_titles.explained(group.tier) for group in of))),
        *remarks,
        *tiers,
        *(f"this machine: {finding.text}" for finding in machine(run)),
    ]
