"""Flame graphs of profiled trials: for each row, the functions in which its CPU time went, those that call above
those that they call; and how the shares differ from those of the best row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dyno.contracts.profile import Frame
from dyno.contracts.value_types import JsonObject
from dyno.report.charts import vega
from dyno.report.charts.chart import ENGINE, REMARKS, Chart, Column, Record, valid_rows
from dyno.report.tables.profiles import describe_waits, list_shares
from dyno.results import Run
from dyno.stats.profile import RowProfile, list_profiles, match_profiles
from dyno.stats.summary import group_values

LEAST_SHARE = 0.004
"""Narrower boxes are left out: they could not be seen."""
MOST_DEPTH = 24
STEP = 17
"""Height in pixels of a function."""
SHARE_TITLE = "share of the row's CPU time"
Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class Box:
    """A function of a flame graph."""

    stack: Stack
    """From the outermost function to this one."""
    begin: float
    share: float
    """Left edge and width, as shares of the CPU time."""


def lay_out(stacks: Mapping[Stack, int]) -> list[Box]:
    """Returns the boxes of a flame graph, outer functions first, and siblings in the order of their names."""
    total = sum(stacks.values())
    counts = Counter[Stack]()
    for stack, count in stacks.items():
        for depth in range(1, min(len(stack), MOST_DEPTH) + 1):
            counts[stack[:depth]] += count
    boxes: dict[Stack, Box] = {}
    ends: dict[Stack, float] = {(): 0.0}
    for stack in sorted(counts, key=lambda stack: (len(stack), stack)):
        parent = stack[:-1]
        share = counts[stack] / total
        if parent not in ends:
            continue
        begin = ends[parent]
        ends[parent] += share
        if share >= LEAST_SHARE:
            ends[stack] = begin
            boxes[stack] = Box(stack, begin, share)
    return list(boxes.values())


def records(run: Run) -> list[Record]:
    """Returns a record for each profiled row, with parallel lists, which the specification flattens."""
    return [{**record, **_figures(profile), **_lists(lay_out(profile.stacks))} for profile, record in _profiled(run)]


def differences(run: Run) -> list[Record]:
    """Returns a record for each profiled row but the best of its place, with the change of each function's share."""
    rows = group_values((repr((r["phase"], r["tier"], r["params"])), (p, r)) for p, r in _profiled(run))
    changes = []
    for (best, base), *others in rows.values():
        for profile, record in others:
            changes.append({**record, "against": base["engine"], **_changes(profile, best)})
    return changes


def _changes(profile: RowProfile, base: RowProfile) -> Record:
    """Returns the figures and boxes of a profile, with the change of each function's share."""
    shares = {box.stack: box.share for box in lay_out(base.stacks)}
    boxes = lay_out(profile.stacks)
    change = [box.share - shares.get(box.stack, 0.0) for box in boxes]
    return {**_figures(profile), "change": change, **_lists(boxes)}


def compare_with(base: Run) -> Chart:
    """Returns the chart of a run that shows how its profiles differ from those of an earlier one."""

    def records_against(run: Run) -> list[Record]:
        if not (base.profiled and run.profiled):
            return []
        changes = {(id(each.after.cell), each.after.phase): each for each in match_profiles(base, run)}
        found = []
        for profile, record in _profiled(run):
            if change := changes.get((id(profile.cell), profile.phase)):
                found.append({**record, **_changes(profile, change.before)})
        return found

    return replace(
        DIFFERENCE,
        name="flame-first-run",
        title="Flame graph, against the first run",
        reading="The flame graph of each row. Colours show by how much a function's share of the CPU time is larger"
        " or smaller than that of the same function with the same callers in the same row of the first run.",
        needs="runs with --profile of the same row",
        columns=COLUMNS,
        records=records_against,
    )


def _profiled(run: Run) -> list[tuple[RowProfile, Record]]:
    """Returns the profile of each row with a figure, with the keys that all of its records have."""
    profiles = {(id(profile.cell), profile.phase): profile for profile in list_profiles(run) if profile.samples}
    keyed = [((id(row.summary.cell), row.summary.phase), record) for row, record in valid_rows(run)]
    return [(profiles[key], record) for key, record in keyed if key in profiles]


def list_waits(run: Run) -> list[Record]:
    """Returns a sentence for each profiled row on what its server's sessions waited for."""
    sentences = []
    for profile, record in _profiled(run):
        if text := describe_waits(profile):
            place = {name: record[name] for name in ("phase", "tier", "params")}
            sentences.append({**place, "engines": [record["engine"]], "text": f"{record['engine']}: {text}"})
    return sentences


def _figures(profile: RowProfile) -> Record:
    return {"samples": profile.samples, "told": list_shares(list(profile.libraries().items())[:6])}


def _lists(boxes: Iterable[Box]) -> Record:
    boxes = list(boxes)
    return {
        "function": [box.stack[-1][1] for box in boxes],
        "library": [box.stack[-1][0] for box in boxes],
        "level": [len(box.stack) for box in boxes],
        "begin": [round(box.begin, 5) for box in boxes],
        "share": [round(box.share, 5) for box in boxes],
    }


def spec(engines: Sequence[str], unit: str) -> JsonObject:
    legend = {"title": None, "orient": "top", "columns": 5, "symbolOpacity": 0.5, "symbolLimit": 10}
    return _boxes([], vega.nominal("library", scale={"range": list(vega.PALETTE)}, legend=legend), {})


def difference_spec(engines: Sequence[str], unit: str) -> JsonObject:
    less, more = vega.VERDICTS["faster"][0], vega.VERDICTS["slower"][0]
    middle = vega.VERDICTS["unclear"][0]
    legend = {"title": "change of the share", "orient": "top", "format": "+.0%", "gradientLength": 160}
    scale = {"domainMid": 0, "range": [less, middle, more], "interpolate": "rgb"}
    return _boxes(["change"], vega.quantity("change", scale=scale, legend=legend), {"changed": "change"})


def _boxes(lists: Sequence[str], colour: JsonObject, titles: Mapping[str, str]) -> JsonObject:
    """Returns the specification of flame graphs, one below the other. `lists`: further fields of the boxes. `titles`:
    further fields of the tooltip."""
    fields = ["function", "library", "level", "begin", "share", *lists]
    texts = {
        "end": "datum.begin + datum.share",
        "band": "datum.engine + '\\t' + datum.level",
        "part": "format(datum.share, '.1%')",
        **({"changed": "format(datum.change, '+.1%')"} if "change" in lists else {}),
        "row": "datum.engine",
    }
    first = "split(datum.value, '\\t')[1] === '1' ? split(datum.value, '\\t')[0] : ''"
    axis = {"title": None, "domain": False, "ticks": False, "labelExpr": first, "labelOverlap": False, "grid": False}
    y = vega.nominal("band", sort=None, axis=axis, scale={"paddingInner": 0.08})
    x = vega.quantity(
        "begin",
        scale={"domain": [0, 1], "nice": False},
        axis={"title": SHARE_TITLE, "format": ".1~%", "tickCount": 5, "grid": False},
    )
    box = {
        "mark": {"type": "bar", "opacity": 0.5, "x2Offset": -1, "clip": True},
        "encoding": {
            "y": y,
            "x": x,
            "x2": {"field": "end"},
            "color": colour,
            "tooltip": vega.tooltip(
                {"row": "engine", "function": "function", "library": "library", "part": "share", **titles}
            ),
            "description": {"field": "spoken"},
        },
    }
    # The page sets `zoom` in records that it has zoomed into: by how much wider their boxes are.
    zoomed = "datum.share * (datum.zoom || 1)"
    name = {
        "transform": [{"filter": f"{zoomed} >= 0.03"}],
        "mark": vega.mark(
            "text", align="left", dx=3, fontSize=10, clip=True, limit={"expr": f"max({zoomed} * width - 6, 0)"}
        ),
        "encoding": {"y": y, "x": x, "text": {"field": "function"}},
    }
    return {
        "data": {"name": "records"},
        "transform": [
            {"flatten": fields},
            *vega.calculate(texts),
            vega.add_spoken_text("datum.row", "datum.function", "datum.part"),
        ],
        "height": {"step": STEP},
        "layer": [box, name],
    }


COLUMNS = (ENGINE, Column("samples", "CPU samples", "count"), Column("told", "libraries"), REMARKS)
FLAME = Chart(
    name="flame",
    title="Flame graph",
    reading="The functions in which the CPU time of one more trial went. A function is below its caller, and as wide"
    " as its share with all that it calls; colours are libraries.",
    needs="a run with --profile",
    columns=COLUMNS,
    records=records,
    spec=spec,
    zooms=True,
    says=list_waits,
)
DIFFERENCE = Chart(
    name="flame-difference",
    title="Flame graph, against the best row",
    reading="The flame graph of each row but the best of its place. Colours show by how much a function's share of"
    " the CPU time is larger or smaller than that of the same function with the same callers in the best row.",
    needs="a run with --profile of several rows",
    columns=(*COLUMNS[:1], Column("against", "against"), *COLUMNS[1:]),
    records=differences,
    spec=difference_spec,
    zooms=True,
)
