"""Finds run files and builds a site of them. Its pages contain their style, program and data, and share one file with
the charting library."""

import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from dyno import results
from dyno.contracts.model import UsageError
from dyno.report.charts import vega
from dyno.report.export import compact
from dyno.report.page import build as page
from dyno.report.page import parts, relative
from dyno.report.site.data import BYTES, Collection, Entry, entry
from dyno.report.tables import units
from dyno.stats.metric import RESPONSE

LIBRARY = "library.js"
TITLES = {"index": "Runs", "compare": "Compare", "history": "History"}
# Scripts of each page in the order of their use.
PROGRAMS = {
    "index": ("base", "theme", "list"),
    "compare": ("base", "theme", "runs", "compare"),
    "history": ("base", "theme", "runs", "history"),
}
LONGEST_NAME = 80
LARGE = 10 << 20
"""Size in bytes from which a run file is large."""
STEPS = {"faster": "triangle-up", "slower": "triangle-down"}
FACTS = ("run", "figure", "interval", "change", "created", "machine", "dyno", "version", "remarks")
TIME = "time"
"""Unit of a history of response times."""
File = tuple[str, "str | bytes"]
"""A path in the site, and the file's content."""


def find(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Returns the named files, and every *.json in and below the directories, in alphabetical order. Hidden
    directories are skipped. Each has whether the user named it: other files may be something else. Raises UsageError
    if there are none."""
    matches: dict[Path, tuple[Path, bool]] = {}
    for path in paths:
        if not path.is_dir():
            matches.setdefault(path.resolve(), (path, True))
        for place, directories, names in os.walk(path):
            directories[:] = sorted(name for name in directories if not name.startswith("."))
            for file in (Path(place, name) for name in sorted(names) if name.endswith(".json")):
                matches.setdefault(file.resolve(), (file, False))
    if not matches:
        raise UsageError(f"{' '.join(map(str, paths))}: no run file (*.json) found")
    return list(matches.values())


def _unique_name(path: Path, taken: set[str]) -> str:
    """Returns a name for a run that is not `taken` yet, and adds it. It is also the page's name, and is safe in an
    address and on any file system."""
    plain = re.sub(r"[^\w.-]+", "-", path.stem, flags=re.ASCII)[:LONGEST_NAME].strip("-.") or "run"
    name, number = plain, 1
    # Compared in lower case, because some file systems ignore case.
    while name.lower() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.lower())
    return name


def build(run_files: Sequence[tuple[Path, bool]], warn: Callable[[str], None], url: str = "") -> Iterator[File]:
    """Yields every file of the site. `url`: the site's future address; with it, the page of each run has a preview
    image. `warn` receives a line for each damaged run file that is left out. Raises UsageError if a library is
    missing or if a file that the user named can't be read."""
    yield LIBRARY, parts.library()
    collection, entries, names = Collection(), list[Entry](), set[str]()
    for path, by_user in run_files:
        try:
            run = results.load(path)
            run_entry = entry(run, _unique_name(path, names))
            link = relative.link(url, run_entry.page) if url else None
            pages: list[File] = [
                (run_entry.page, page.build([run], page.Site(f"../{LIBRARY}", "../index.html"), link))
            ]
            if link:
                pages.append((f"{PurePosixPath(run_entry.page).parent}/{link.file}", relative.preview(run)))
            collection.add(run, run_entry)
        except UsageError as error:
            if by_user:
                raise
            with suppress(OSError):
                if results.is_run_file(path):
                    warn(str(error))
            continue
        entries.append(run_entry)
        yield from pages
        # A rendered page refers to itself and holds its run, so a large run could leave no memory for the next. For
        # hundreds of small runs, collecting would take too long.
        del run, pages
        if path.stat().st_size > LARGE:
            gc.collect()
    if not entries:
        raise UsageError("none of the files is a run file of dyno")
    entries.sort(key=lambda run_entry: run_entry.created, reverse=True)
    yield "compare.html", _page("compare", entries, collection.compare())
    charts = {
        "config": {name: vega.config(dark=name == "dark") for name in ("light", "dark")},
        "specs": _specs(collection.units(), _choices(entries)["machine"]),
    }
    yield "history.html", _page("history", entries, {**collection.history(), **charts})
    yield "index.html", _page("index", entries)


def _page(name: str, entries: Sequence[Entry], data: dict[str, Any] | None = None) -> str:
    program = parts.program(*(_text(f"{script}.js") for script in PROGRAMS[name]))
    style = _text("page.css") + _text("site.css")
    # Vega writes inline styles into its drawings.
    draws = name == "history"
    text: str = parts.template(f"{name}.html", _text).render(
        name=name,
        titles=TITLES,
        entries=entries,
        choices=_choices(entries),
        style=style,
        program=program,
        script_src=parts.allowed(program) + (f" {parts.BESIDE}" if draws else ""),
        style_src="'unsafe-inline'" if draws else parts.allowed(style),
        library=LIBRARY if draws else None,
        data=None if data is None else parts.pack(compact({**data, "unknown": units.UNKNOWN})),
    )
    return text


def _choices(entries: Sequence[Entry]) -> dict[str, list[str]]:
    return {
        "suite": sorted({one.suite for one in entries}),
        "engine": sorted({engine for one in entries for engine in one.engines}),
        "machine": sorted({one.machine for one in entries}),
    }


def _text(name: str) -> str:
    """Returns the content of a file of this folder, or else of the page's folder, whose looks and scripts the site
    shares."""
    own = files(__package__) / name
    return (own if own.is_file() else files(parts.__package__) / name).read_text(encoding="utf-8")


# -- the chart of a history ---------------------------------------------------------------------------------


def _specs(row_units: Iterable[str], machines: Sequence[str]) -> dict[str, Any]:
    """Returns specifications of a cell's figure over time, with a line for each machine, by unit of the rows, and one
    for times. A machine has the same colour in all of them.

    Records are made in the browser. They have `day` (ISO 8601), `machine`, `median`, `low`, `high`, `top` (the larger
    of `median` and `high`), `page`, `step` ('faster' or 'slower' if the speed changed with this run), and the facts
    of the tooltip. The browser leaves out a layer with a name if no record has a value for that name.
    """
    looks = {unit: (f"{unit}/s", "rate") for unit in row_units} | {TIME: (RESPONSE.title, "ns")}
    if BYTES in looks:
        looks[BYTES] = ("bandwidth", "bandwidth")
    return {unit: _spec(title, kind, machines) for unit, (title, kind) in looks.items()}


def _spec(title: str, kind: str, machines: Sequence[str]) -> dict[str, Any]:
    # With an axis from zero, changes would be too small to see. The intervals show how much of a change may be noise.
    y = {"scale": {"zero": False, "nice": True, "padding": 12}}
    axis = {"title": title, "labelExpr": vega.figure(kind, "datum.value"), "tickCount": 6}
    median = vega.quantity("median", **y, axis=axis)
    legend = {"orient": "top", "direction": "vertical", "title": None, "symbolOpacity": 1}
    colour, shape = (
        vega.nominal("machine", legend=legend, scale=vega.scale(machines, channel)) for channel in ("color", "shape")
    )
    tooltip = vega.tooltip({name: name for name in FACTS})
    line = vega.layer({"type": "line", "strokeWidth": 1.5}, {"y": median, "color": colour})
    interval = vega.layer(
        {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
        {"y": vega.quantity("low", **y), "y2": {"field": "high"}, "color": colour},
        "isValid(datum.low)",
    )
    point = vega.layer(
        {"type": "point", "filled": True, "size": 70, "opacity": 1, "cursor": "pointer"},
        {"y": median, "color": colour, "shape": shape, "tooltip": tooltip, "href": {"field": "page"}},
    )
    title = "than the run before on the same machine:"
    step_legend = {"orient": "top", "title": title, "titleOrient": "left", "titleLimit": 400}
    looks = {"shape": list(STEPS.values()), "color": [vega.VERDICTS[kind][0] for kind in STEPS]}
    step = {
        channel: vega.nominal("step", legend=step_legend, scale={"domain": list(STEPS), "range": values})
        for channel, values in looks.items()
    }
    step_mark = vega.layer(
        {"type": "point", "filled": True, "size": 110, "opacity": 1, "yOffset": -14},
        {"y": vega.quantity("top", **y), **step, "tooltip": tooltip},
        "isValid(datum.step)",
    )
    day = {"title": None, "grid": False, "labelOverlap": True, "labelFlush": 30, "tickCount": 8}
    x = {"field": "day", "type": "temporal", "scale": {"type": "utc", "padding": 16}, "axis": day}
    return {
        "data": {"name": "records"},
        "height": 320,
        "encoding": {"x": x},
        "layer": [
            {"layer": [line, {"name": "low", **interval}, {"name": "median", **point}]},
            {"name": "step", **step_mark},
        ],
        "resolve": {"scale": {"shape": "independent", "color": "independent"}},
    }
