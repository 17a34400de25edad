"""Puts the page together, all of it in one text: but for the charting library, where that is in a file beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from dyno import __version__
from dyno.report import charts as every
from dyno.report.charts.chart import Chart
from dyno.report.export.free_memory import trim
from dyno.report.export.json_stream import compact
from dyno.report.page import downloads, multiples, parts, payload, relative, results, settings, stills, together
from dyno.report.page.card import Link
from dyno.report.page.downloads import MOST_BYTES, Download, Part, pack
from dyno.report.tables import display_limits, heading, notes, sweeps, units, wide, wording
from dyno.report.tables.overview import address, called, overviews, rankings
from dyno.report.tables.table import groups, served, varying
from dyno.results import Run
from dyno.stats.costs import Prices
from dyno.stats.doubts import machine
from dyno.stats.machine import machine_doubts
from dyno.text.sanitize import sanitize

T = TypeVar("T")

OPENING = "<!doctype html>\n<!-- A report of dyno -->\n"
# In the order of their use; together they are one program.
PROGRAM = ("base", "theme", "format", "state", "filters", "tableview", "notes", "figure", "save", "page")


@dataclass(frozen=True)
class Site:
    """What a page that is one of many has beside it, as addresses from there."""

    library: str
    home: str


def build(
    runs: Sequence[Run], site: Site | None = None, link: Link | None = None, prices: Prices | None = None
) -> str:
    """The whole page, with what the rows cost by `prices`. `link`: where it will be, and the picture of it.
    Raises UsageError where a library is missing or a run file can't be read."""
    template, library = parts.template("page.html"), "" if site else parts.library()
    program = parts.program(*(parts.text(f"{name}.js") for name in PROGRAM))
    alike = len({run.path.name for run in runs}) < len(runs)
    shown = [
        _shown(at, run, sanitize(str(run.path) if alike else run.path.name, keep=""), charts)
        for at, (run, charts) in enumerate(zip(runs, every.of_runs(runs), strict=True))
    ]
    pairs = together.together(runs, [one["name"] for one in shown])
    if pairs and all(pair.sections for pair in pairs):
        for one in shown:
            # That its engines are alone is no answer beside the other runs.
            if one["answers"] and not one["compares"]:
                one |= {"answers": [], "further": ([], ""), "alone": True}
    told = [payload.of_run(one["run"], one["name"], one["groups"], one["ranked"], one["charts"]) for one in shown]
    drawn = {name for one in told for name, records in one["records"].items() if records["rows"]}
    charts = list({c.name: c for one in shown for c in one["charts"] if c.name in drawn}.values())
    start = told[0]["start"]
    # Of one of very many pages it would take too long.
    few = [] if site else stills.chosen(shown[0]["run"], shown[0]["charts"], told[0])
    data = Part("data", pack(compact({**payload.common(charts), "runs": told})))
    packed = [*([] if site else [Part("library", pack(library))]), data]
    # Of a large run it is much memory, and drawing takes its own.
    told.clear()
    trim()
    still = stills.stills(shown[0]["run"], few)

    def page(of_run: Callable[[Run, int], Download]) -> str:
        files = [[of_run(one["run"], one["at"]), *one["files"]] for one in shown]
        text: str = template.render(
            opening=OPENING,
            runs=shown,
            together=pairs,
            costs=None if prices is None else together.costs(runs, [one["name"] for one in shown], prices),
            downloads=files,
            parts=[*packed, *(file for file in chain.from_iterable(files) if file.packed)],
            address=address,
            reads=relative.READS,
            shares_mean=notes.CEILING_SHARES,
            grid_reads=multiples.READS,
            charts=charts,
            stills=still,
            start=start,
            style=parts.text("page.css"),
            program=program,
            allowed=f"{parts.allowed(program)} {parts.BESIDE if site else parts.allowed(library)}",
            site=site,
            link=link,
            dyno=__version__,
        )
        return text

    # Not packed where it could have no room.
    known = sum(len(part.packed) for part in [*packed, *chain.from_iterable(one["files"] for one in shown)])
    text = page(downloads.whole) if known < MOST_BYTES else ""
    if text and len(text.encode()) <= MOST_BYTES:
        return text
    text = page(downloads.part)
    over = len(text.encode()) - MOST_BYTES
    if over <= 0 or not still:
        return text
    # What the program draws anyway has to give way: the last charts first.
    while over > 0 and still:
        over -= len(still.popitem()[1].encode())
    return page(downloads.part)


def _shown(at: int, run: Run, name: str, charts: Sequence[Chart]) -> dict[str, Any]:
    """All that the template says of a run."""
    found, ranked = groups(run), rankings(run)
    own = wide.tables(run, found)
    # Of one engine it would say the same again, in a table for each combination of parameters.
    alone = bool(own) and len(heading.engines(run)) == 1
    names = called(run)
    answers = [_unbroken(answer).partition(". ") for answer in wording.answers(run, names)]
    views, views_rest = ([], "") if alone else overviews(run, found, ranked)
    most = max(display_limits.RESULTS // max(len(found), 1), display_limits.FEWEST_RESULTS)
    return {
        "at": at,
        "run": run,
        "name": name,
        "charts": charts,
        "crossings": _few(list(sweeps.rows(run)), "crossings", "the charts say all of the place that they show"),
        "suite": run.plan["suite"],
        "created": str(run.header.get("created") or units.UNKNOWN).replace("T", " ")[:16],
        "answers": answers[: display_limits.ANSWERS],
        "further": _few(answers[display_limits.ANSWERS :], "further answers", "`dyno show` has all"),
        "alone": False,
        "compares": any(found.others for found in wording.called(run)),
        "pictures": relative.pictures(run, names),
        "names": names,
        "against": results.against(found),
        "engines": heading.engines(run),
        "how": f"{heading.trials(run)}; {heading.length(run)}",
        "machine_line": heading.machine(run),
        "measured": notes.loops(run),
        "findings": machine(run),
        "incomplete": heading.unfinished(run),
        "groups": found,
        "ranked": ranked,
        "own": [(one, *_few(one.lines, "lines", "the CSV among the downloads has all")) for one in own],
        "own_legend": wide.legend(run),
        "overviews": views,
        "shares": _few(list(notes.ceiling_shares(run)), "rows", "the figures of the others are in the CSV"),
        "grid": multiples.grid(run, views, ranked),
        "overviews_rest": views_rest,
        "varying": varying(run),
        "results": [results.results(group, varying(run), ranked, served(found), most) for group in found],
        "absent": _few(notes.absent(run), "lines", "`dyno show` has all"),
        "legend": notes.legend(found) + notes.cpu_legend(found) + notes.evidence(run),
        "plan": settings.plan(run),
        "settings": _few(settings.engines(run), "engines and their settings", "the run file has all"),
        "machine": settings.machine(run),
        "machine_findings": machine_doubts(run.header.get("host") or {}),
        "command": settings.command(run),
        "files": list(downloads.results(run, at)),
    }


def _few(of: Sequence[T], what: str, where: str) -> tuple[list[T], str]:
    """Of a list that is no longer than a page has room for, and what is to be said of the rest."""
    return display_limits.first(of, display_limits.ENTRIES, what, where)


def _unbroken(text: str) -> str:
    """A percentage stays on one line."""
    return text.replace(" %", "\u00a0%")
