"""Tables as HTML for a notebook, which has styles of its own: plain elements, and every text escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape

from dyno.report.export import markdown
from dyno.report.tables import comparison, heading, row_titles, wording
from dyno.report.tables.table import absent, failures, groups, legend, meaning, served, varying
from dyno.results import Run
from dyno.stats.doubts import machine

RIGHT = ' style="text-align: right"'
LEFT = ' style="text-align: left"'


def run(found: Run) -> str:
    """The tables by phase and tier, the answer above them, and what speaks against the numbers below."""
    shown, changing = groups(found), varying(found)
    apart = served(shown)
    tables = [
        _table(row_titles.named(group.place, row_titles.tier(group.tier)), *markdown.columns(group, changing, apart))
        for group in shown
    ]
    remarks = [
        *(f"no number: {line}" for line in failures(shown)),
        *(f"not measured: {line}" for line in absent(found)),
        *dict.fromkeys(filter(None, (row_titles.explained(group.tier) for group in shown))),
        *legend(shown),
        *meaning(shown),
        *(f"this machine: {finding.text}" for finding in machine(found)),
    ]
    title = f"<p><b>{escape(str(found.plan['suite']))}</b>: {escape(heading.trials(found))}.</p>"
    return "\n".join([title, _list(wording.answers(found)), *tables, _list(remarks)])


def sections(found: Sequence[comparison.Section], lines: Iterable[str]) -> str:
    """Comparisons."""
    tables = []
    for section in found:
        columns = {head: [row[at] for row in section.rows] for at, head in enumerate(section.heads)}
        title = f"{section.title.replace('  ', ', ')}{', ' if section.remark else ''}{section.remark}"
        tables.append(_table(title, columns if section.rows else {}, set(section.left)))
    return "\n".join([*tables, _list(lines)])


def _table(title: str, columns: Mapping[str, Sequence[str]], left: Collection[str]) -> str:
    if not columns:
        return f"<p><b>{escape(title)}</b></p>"
    sides = [LEFT if head in left else RIGHT for head in columns]
    heads = "".join(f"<th{side}>{escape(head)}</th>" for side, head in zip(sides, columns, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{side}>{escape(cell)}</td>" for side, cell in zip(sides, row, strict=True)) + "</tr>"
        for row in zip(*columns.values(), strict=True)
    ]
    caption = f"<caption{LEFT}><b>{escape(title)}</b></caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""
