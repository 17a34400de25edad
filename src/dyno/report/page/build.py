"""Builds the page of one or several runs. The page is a single self-contained text, except that the pages of a site
share the charting library."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from dyno import __version__
from dyno.contracts.model import UsageError
from dyno.contracts.sanitize import sanitize
from dyno.report import charts
from dyno.report.charts.chart import Chart
from dyno.report.export import compact
from dyno.report.page import parts, payload, relative
from dyno.report.page.parts import MOST_BYTES, Download, Part, pack
from dyno.report.page.relative import Link
from dyno.report.replicate import replica
from dyno.report.tables import comparison, display, notes, side_by_side, sweeps, units, wide, wording
from dyno.report.tables.overview import address, overviews, phase_aliases, rankings
from dyno.report.tables.sections import Section
from dyno.report.tables.table import groups, has_server, varying_params
from dyno.results import Run
from dyno.stats.costs import Prices
from dyno.stats.costs import costs as stats_costs
from dyno.stats.doubts import machine
from dyno.stats.machine import machine_doubts
from dyno.stats.two_runs import compare_runs, confidence_of_each
from dyno.stats.verdict import MARGIN

OPENING = "<!doctype html>\n<!-- A report of dyno -->\n"
# Scripts in the order of their use. They are joined to one program.
PROGRAM = ("base", "theme", "state", "filters", "tableview", "notes", "zoom", "figure", "save", "page")


@dataclass(frozen=True)
class Site:
    """Addresses of a site's shared files, relative to a page."""

    library: str
    home: str


def build(
    runs: Sequence[Run], site: Site | None = None, link: Link | None = None, prices: Prices | None = None
) -> str:
    """Returns the page. `prices`: the page also has the costs of its rows. `link`: the page's future address and its
    preview image. Raises UsageError if a library is missing or a run file can't be read."""
    template, library = parts.template("page.html"), "" if site else parts.library()
    program = parts.program(*(parts.text(f"{name}.js") for name in PROGRAM))
    same_name = len({run.path.name for run in runs}) < len(runs)
    shown = [
        _show_run(at, run, sanitize(str(run.path) if same_name else run.path.name, keep=""), of_run)
        for at, (run, of_run) in enumerate(zip(runs, charts.of_runs(runs, prices), strict=True))
    ]
    pairs = compare_with_first(runs, [one["name"] for one in shown])
    if pairs and all(pair.sections for pair in pairs):
        for one in shown:
            # Next to the comparison with other runs, "nothing to compare" would not be an answer.
            if one["answers"] and not one["compares"]:
                one |= {"answers": [], "further": ([], ""), "alone": True}
    data = [payload.of_run(one["run"], one["name"], one["groups"], one["ranked"], one["charts"]) for one in shown]
    with_records = {name for one in data for name, records in one["records"].items() if records["rows"]}
    by_name = {chart.name: chart for one in shown for chart in one["charts"] if chart.name in with_records}
    start = data[0]["start"]
    # A site has many pages, and drawing charts for each would take too long.
    if site:
        to_draw = []
    else:
        to_draw = payload.choose_records(shown[0]["run"], shown[0]["charts"], data[0])
    packed = [] if site else [Part("library", pack(library))]
    packed.append(Part("data", pack(compact({**payload.common(by_name.values()), "runs": data}))))
    # Free memory for the drawing: the data of a large run takes much of it.
    data.clear()
    drawings = payload.stills(shown[0]["run"], to_draw)

    def page(run_file: Callable[[Run, int], Download]) -> str:
        files = [[run_file(one["run"], one["at"]), *one["files"]] for one in shown]
        text: str = template.render(
            opening=OPENING,
            runs=shown,
            together=pairs,
            costs=None if prices is None else costs(runs, [one["name"] for one in shown], prices),
            downloads=files,
            parts=[*packed, *(file for file in chain.from_iterable(files) if file.packed)],
            address=address,
            reads=relative.READS,
            shares_mean=notes.CEILING_SHARES,
            grid_reads=relative.PHASES_READ,
            charts=list(by_name.values()),
            stills=drawings,
            start=start,
            style=parts.text("page.css"),
            program=program,
            allowed=f"{parts.source_hash(program)} {parts.BESIDE if site else parts.source_hash(library)}",
            site=site,
            link=link,
            dyno=__version__,
        )
        return text

    # If the page is already too large, the whole run file doesn't fit.
    size = sum(len(part.packed) for part in [*packed, *chain.from_iterable(one["files"] for one in shown)])
    if size < MOST_BYTES and len((text := page(parts.whole)).encode()) <= MOST_BYTES:
        return text
    text = page(parts.part)
    over = len(text.encode()) - MOST_BYTES
    while over > 0 and drawings:
        # Drop drawings, the last ones first, because the program draws these charts anyway.
        over -= len(drawings.popitem()[1].encode())
        text = ""
    return text or page(parts.part)


def _show_run(at: int, run: Run, name: str, of_run: Sequence[Chart]) -> dict[str, Any]:
    by_place, ranked = groups(run), rankings(run)
    own = wide.tables(run, by_place)
    names = phase_aliases(run)
    answers = [answer.replace(" %", "\u00a0%").partition(". ") for answer in wording.answers(run, names)]
    # With a single engine, the overview would repeat the suite's own tables.
    alone = bool(own) and len(notes.engines(run)) == 1
    views, views_rest = ([], "") if alone else overviews(run, by_place, ranked)
    most = max(display.RESULTS // max(len(by_place), 1), display.FEWEST_RESULTS)

    def first_entries(entries: Sequence[object], noun: str, where: str) -> tuple[list[object], str]:
        return display.take_first(entries, display.ENTRIES, noun, where)

    return {
        "at": at,
        "run": run,
        "name": name,
        "charts": of_run,
        "crossings": first_entries(list(sweeps.rows(run)), "crossings", "the charts have all of the selected place"),
        "suite": run.plan.suite,
        "created": (run.header.created or units.UNKNOWN).replace("T", " ")[:16],
        "answers": answers[: display.ANSWERS],
        "further": first_entries(answers[display.ANSWERS :], "further answers", "`dyno show` has all"),
        "alone": False,
        "published": None if (original := replica.original(run)) is None else list(replica.sections(original, run)),
        "compares": any(answer.others for answer in wording.rename_phases(run)),
        "pictures": relative.pictures(run, names),
        "names": names,
        "against": payload.count_doubts(by_place),
        "engines": notes.engines(run),
        "how": f"{notes.trials(run)}; {notes.length(run)}",
        "machine_line": notes.machine(run),
        "measured": notes.loops(run),
        "findings": machine(run),
        "incomplete": notes.describe_progress(run),
        "groups": by_place,
        "ranked": ranked,
        "own": [(one, *first_entries(one.lines, "lines", "the CSV among the downloads has all")) for one in own],
        "own_legend": wide.legend(run),
        "overviews": views,
        "shares": first_entries(list(notes.ceiling_shares(run)), "rows", "the CSV has the figures of the others"),
        "grid": relative.phases(run, views, ranked),
        "overviews_rest": views_rest,
        "varying": varying_params(run),
        "results": [
            payload.results(group, varying_params(run), ranked, has_server(by_place), most) for group in by_place
        ],
        "absent": first_entries(notes.absent(run), "lines", "`dyno show` has all"),
        "legend": notes.legend(by_place) + notes.evidence(run),
        "plan": payload.plan(run),
        "settings": first_entries(payload.engines(run), "engines and their settings", "the run file has all"),
        "machine": payload.machine(run),
        "machine_findings": machine_doubts(run.header.host),
        "command": payload.command(run),
        "files": list(parts.results(run, at)),
    }


# -- several runs -------------------------------------------------------------------------------------------

KINDS = {
    "faster": "faster",
    "slower": "slower",
    "alike": "without a difference",
    "unclear": "without a clear verdict",
}
WHERE = {
    "definition": "definitions",
    "machine": "machines",
    "dyno": "Dyno or its loop",
    "plan": "plans",
    "commit": "commits",
}


@dataclass(frozen=True)
class Together:
    """The comparison of two runs."""

    headline: str
    sections: tuple[Section, ...]
    """Sections; the first lists the differences."""
    lines: tuple[str, ...]
    """Explanations of the ratios, and rows of one run only."""
    rest: str
    """Sentence about lines that are left out."""


def compare_with_first(runs: Sequence[Run], names: Sequence[str]) -> list[Together]:
    """Returns the comparison of each run with the first run of its suite. `names`: names of the runs."""
    first: dict[str, int] = {}
    pairs = []
    suites = Counter(run.plan.suite for run in runs)
    for at, run in enumerate(runs):
        suite = run.plan.suite
        base = first.setdefault(suite, at)
        if base != at:
            pairs.append(_pair(runs[base], run, names[base], names[at], confidence_of_each(suites[suite] - 1)))
    return pairs


def costs(runs: Sequence[Run], names: Sequence[str], prices: Prices) -> tuple[Section, str]:
    """Returns the costs of all runs' rows, and a sentence about rows that are left out. Raises UsageError."""
    shown_names = names if len(runs) > 1 else [""]
    by_run = [(run, name, stats_costs(run, prices)) for run, name in zip(runs, shown_names, strict=True)]
    section = side_by_side.by_cost(by_run, prices)
    rows, rest = display.take_first(section.rows, display.RESULTS, "rows", "`dyno show --prices` has all")
    return replace(section, remark=section.legend[0], rows=rows), rest


def _pair(before: Run, after: Run, old: str, new: str, confidence: float) -> Together:
    try:
        pair = compare_runs(before, after, confidence=confidence)
    except UsageError as error:
        return Together(f"{new} can't be compared with {old}", (), (str(error),), "")
    changing = list(dict.fromkeys([*varying_params(before), *varying_params(after)]))
    differences = comparison.list_differences(pair)
    where = "`dyno compare` has all"
    rows, cut = display.take_first(differences.rows, display.ENTRIES, "differences", where)
    remark = cut or ("" if rows else "nothing that is recorded")
    heads = {"before": old, "after": new}
    sections = [
        replace(section, heads=[heads.get(head, head) for head in section.heads])
        for section in (replace(differences, remark=remark, rows=rows), *comparison.compare_runs([pair], changing))
    ]
    gone, rest = display.take_first(comparison.list_lost_rows([pair]), display.ENTRIES, "rows", where)
    how = f"{wording.explain_ratios(pair.paired, wording.level(confidence))} {comparison.equal(MARGIN)}"
    lines = [*gone, *comparison.conditions(after), how]
    # The headline has the numbers of verdicts, and the differences between the runs.
    kinds = Counter(change.verdict.kind for change in pair.changes)
    parts = [f"{kinds[kind]} of {len(pair.changes)} rows {text}" for kind, text in KINDS.items() if kinds[kind]]
    parts += [] if pair.changes else ["no row has a number in both"]
    places = dict.fromkeys(difference.where for difference in pair.differences)
    engines = [name for name in places if name not in WHERE]
    changed = [WHERE[name] for name in places if name in WHERE]
    changed += [f"version or settings of {display.join_names(engines)}"] if engines else []
    parts.append(f"what differs: {display.join_names(changed)}" if changed else "nothing that is recorded differs")
    return Together(f"{new} against {old}: {', '.join(parts)}", tuple(sections), tuple(lines), rest)
