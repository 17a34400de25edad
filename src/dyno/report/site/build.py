"""Finds run files and bundles, and builds a site of them. Its pages contain their style, program and data, and share
one file with the charting library.

In the directory of a site, only files that an earlier build wrote are replaced or removed, links are never followed,
and an interrupted build leaves the earlier files in place. The manifest has the SHA-256 of each file that a build
wrote. A file with another content belongs to the user.
"""

import gc
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dyno import results
from dyno.bundles.container import ENDING
from dyno.contracts.model import UsageError
from dyno.host.filesystem import replace
from dyno.host.process import deferred_signals
from dyno.report.charts import vega
from dyno.report.export import compact
from dyno.report.page import build as page
from dyno.report.page import parts, relative
from dyno.report.site.data import BYTES, Collection, Entry, entry
from dyno.report.site.league import Leagues
from dyno.report.tables import units, wording
from dyno.results import Lock, Run
from dyno.results.names import distinct_names
from dyno.stats.metric import RESPONSE

LIBRARY = "library.js"
TITLES = {"index": "Runs", "compare": "Compare", "history": "History", "league": "League"}
# Scripts of each page in the order of their use.
PROGRAMS = {
    "index": ("base", "theme", "address", "list"),
    "compare": ("base", "theme", "runs", "compare"),
    "history": ("base", "theme", "runs", "history"),
    "league": ("base", "theme", "address", "league"),
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


class RunFile(NamedTuple):
    path: Path
    by_user: bool
    """Whether the user named the file. Other files may be something else."""
    depth: int
    """Number of the last parts of the path that name the run: 1 for a file that the user named, and for others the
    path in the directory. So a run keeps its name and its page if others are added to the directory."""


def find(paths: Sequence[Path]) -> list[RunFile]:
    """Returns the named files, and every *.json and *.dyno in and below the directories, in alphabetical order,
    bundles last. Hidden directories are skipped. Raises UsageError if there are none."""
    matches: dict[Path, RunFile] = {}
    for path in paths:
        if not path.is_dir():
            matches.setdefault(path.resolve(), RunFile(path, True, 1))
        for place, directories, names in os.walk(path):
            directories[:] = sorted(name for name in directories if not name.startswith("."))
            for file in (Path(place, name) for name in sorted(names) if Path(name).suffix in (".json", ENDING)):
                depth = len(file.relative_to(path).parts)
                matches.setdefault(file.resolve(), RunFile(file, False, depth))
    if not matches:
        raise UsageError(f"{' '.join(map(str, paths))}: no run file (*.json) or bundle (*{ENDING}) found")
    return sorted(matches.values(), key=lambda match: match.path.suffix == ENDING)


def _page_name(text: str, taken: set[str]) -> str:
    """Returns a name for the page of a run or suite that is not `taken` yet, and adds it. It is safe in an address
    and on any file system."""
    plain = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII)[-LONGEST_NAME:].strip("-.") or "run"
    name, number = plain, 1
    # Compared in lower case, because some file systems ignore case.
    while name.lower() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.lower())
    return name


def build(
    run_files: Sequence[RunFile],
    warn: Callable[[str], None],
    url: str = "",
    opened: Callable[[Path], AbstractContextManager[Run]] = lambda path: nullcontext(results.load(path)),
) -> Iterator[File]:
    """Yields every file of the site. `url`: the site's future address; with it, the page of each run has a preview
    image. `warn` receives a line for each damaged run file that is left out. `opened` loads a run file or a bundle. A
    bundle of a run that the site has already is left out. Raises UsageError if a library is missing, if a file that
    the user named can't be read, and for any damaged bundle."""
    yield LIBRARY, parts.library()
    collection = Collection()
    leagues = Leagues()
    entries = list[Entry]()
    pages_taken = set[str]()
    run_names = distinct_names([each.path for each in run_files], [each.depth for each in run_files])
    for (path, by_user, _), run_name in zip(run_files, run_names, strict=True):
        try:
            with opened(path) as run:
                if path.suffix == ENDING and leagues.includes(run):
                    continue
                run_entry = entry(run, run_name, _page_name(run_name, pages_taken))
                if url:
                    link = relative.link(url, run_entry.page)
                else:
                    link = None
                pages: list[File] = [
                    (run_entry.page, page.build([run], page.Site(f"../{LIBRARY}", "../index.html"), link))
                ]
                if link:
                    pages.append((f"{PurePosixPath(run_entry.page).parent}/{link.file}", relative.preview(run)))
                collection.add(run, run_entry)
                leagues.add(run, run_entry)
        except UsageError as error:
            if by_user or path.suffix == ENDING:
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
    taken, of_suites = set[str](), list(leagues.leagues())
    suites = [(f"league-{_page_name(league.suite, taken)}.html", league.suite) for league in of_suites]
    for (file, _), league in zip(suites, of_suites, strict=True):
        yield file, _page("league", entries, league.data, suites, league=league, level=wording.LEVEL)
    yield "compare.html", _page("compare", entries, collection.compare(), suites)
    machines = _choices(entries)["machine"]
    looks = {unit: (f"{unit}/s", "rate") for unit in collection.units()} | {TIME: (RESPONSE.title, "ns")}
    if BYTES in looks:
        looks[BYTES] = ("bandwidth", "bandwidth")
    charts = {
        "config": {name: vega.config(dark=name == "dark") for name in ("light", "dark")},
        "specs": {unit: _spec(title, kind, machines) for unit, (title, kind) in looks.items()},
    }
    yield "history.html", _page("history", entries, {**collection.history(), **charts}, suites)
    yield "index.html", _page("index", entries, leagues=suites)


def _page(
    name: str,
    entries: Sequence[Entry],
    data: dict[str, object] | None = None,
    leagues: Sequence[tuple[str, str]] = (),
    **more: object,
) -> str:
    """Renders a page. `leagues`: the files of leagues, with their suites. `more`: values of the page's own
    template."""
    program = parts.program(*(_text(f"{script}.js") for script in PROGRAMS[name]))
    style = _text("page.css") + _text("site.css")
    # Vega writes inline styles into its drawings.
    draws = name == "history"
    text: str = parts.template(f"{name}.html", _text).render(
        name=name,
        titles=TITLES,
        leagues=leagues,
        entries=entries,
        choices=_choices(entries),
        style=style,
        program=program,
        script_src=parts.source_hash(program) + (f" {parts.BESIDE}" if draws else ""),
        style_src="'unsafe-inline'" if draws else parts.source_hash(style),
        library=LIBRARY if draws else None,
        data=None if data is None else parts.pack(compact({**data, "unknown": units.UNKNOWN})),
        **more,
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


def _spec(title: str, kind: str, machines: Sequence[str]) -> dict[str, object]:
    """Returns the specification of a cell's figure over time, with a line for each machine. A machine has the same
    colour in all of them.

    Records are made in the browser. They have `day` (ISO 8601), `machine`, `median`, `low`, `high`, `top` (the larger
    of `median` and `high`), `page`, `step` ('faster' or 'slower' if the speed changed with this run), and the facts
    of the tooltip. The browser leaves out a layer with a name if no record has a value for that name.
    """
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


# -- the directory ------------------------------------------------------------------------------------------

MARKER = ".dyno-site"
"""Name of the manifest."""
FRESH = ".dyno-site-new-"
"""Prefix of the directory in which a build collects its files."""
_NAME = re.compile(r"(?:runs/)?\w[\w.-]*", re.ASCII)
"""Valid paths of a site's files."""
_FRESH_NAME = re.compile(re.escape(FRESH) + "[0-9a-f]{8}")


# SHA-256 of each file that a build wrote, by path in the site. While files are exchanged, a path has two: the old and
# the new one.
_Sums = Mapping[str, list[str]]


def write(directory: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Replaces the files of the previous build with these. Each has a path below the directory and a content. Other
    files stay. Raises UsageError for a directory that is neither empty nor a site's. Also raises it if a file would
    have to be overwritten that no earlier build wrote."""
    check(directory)
    existed = directory.exists()
    with _convert_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with Lock() as lock:
        lock.take(directory)
        before = _read(directory)
        (old, unfinished), exchanging = before or ({}, None), False
        fresh = directory / f"{FRESH}{secrets.token_hex(4)}"
        try:
            with _convert_write_errors(directory):
                if unfinished is not None:
                    # A build that was killed left the directory. rmtree does not follow links.
                    shutil.rmtree(directory / unfinished, ignore_errors=True)
                # Written to the manifest before it is created, because later builds only remove a directory that the
                # manifest names.
                _mark(directory, old, fresh.name)
                fresh.mkdir(0o700)
            new = dict[str, list[str]]()
            for name, content in files:
                assert _NAME.fullmatch(name), name
                if name.startswith("runs/") and (directory / "runs").is_symlink():
                    raise UsageError(f"{directory}/runs is a link, and links are not followed: remove it")
                path = directory / name
                if os.path.lexists(path) and not _is_own(path, directory, old.get(name, [])):
                    raise UsageError(
                        f"{path} was not written by dyno site, or was changed since: move it away, or name another"
                        " directory with -o"
                    )
                if isinstance(content, str):
                    data = content.encode()
                else:
                    data = content
                with _convert_write_errors(directory):
                    (fresh / name).parent.mkdir(exist_ok=True)
                    (fresh / name).write_bytes(data)
                new[name] = [hashlib.sha256(data).hexdigest()]
            with deferred_signals() as deferred, _convert_write_errors(directory):
                exchanging = True
                _exchange(directory, fresh, old, new)
            if deferred:
                raise KeyboardInterrupt
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            if not exchanging:
                with suppress(OSError):
                    if before is not None:
                        _mark(directory, old)
                    else:
                        (directory / MARKER).unlink(missing_ok=True)
                        if not existed:
                            directory.rmdir()


def check(directory: Path) -> None:
    """Raises UsageError for a directory that `write` refuses."""
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise UsageError(f"{directory} exists and is not a directory: -o names one")
    _read(directory)


@contextmanager
def _convert_write_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"can't write {directory}: {error.strerror}") from None


def _read(directory: Path) -> tuple[_Sums, str | None] | None:
    """Returns the manifest, which also names the directory in which an unfinished build collects its files; None for
    an empty directory. Raises UsageError."""
    path = directory / MARKER
    manifest: object = None
    with _convert_write_errors(directory):
        if not os.path.lexists(path) and not any(directory.iterdir()):
            return None
    with suppress(OSError, ValueError, RecursionError):
        if path.is_file() and not path.is_symlink():
            manifest = json.loads(path.read_bytes())
    files, building = (manifest.get(key) if isinstance(manifest, dict) else None for key in ("files", "building"))
    valid = isinstance(files, dict) and all(
        _NAME.fullmatch(name) and isinstance(sums, list) and all(isinstance(known, str) for known in sums)
        for name, sums in files.items()
    )
    if not valid or not (building is None or (isinstance(building, str) and _FRESH_NAME.fullmatch(building))):
        raise UsageError(f"{directory} is not empty and was not made by dyno site: -o names another directory")
    return files or {}, building


def _is_own(path: Path, directory: Path, sums: list[str]) -> bool:
    """Returns whether a file still has the content that an earlier build wrote, and neither it nor its directory in
    the site is a link."""
    with suppress(OSError):
        if path.is_file() and not path.is_symlink() and (path.parent == directory or not path.parent.is_symlink()):
            return hashlib.sha256(path.read_bytes()).hexdigest() in sums
    return False


def _exchange(directory: Path, fresh: Path, old: _Sums, new: _Sums) -> None:
    # The manifest is written first: if this is interrupted, the next build knows every file that was written.
    both = {name: old.get(name, []) + new.get(name, []) for name in {**old, **new}}
    _mark(directory, both, fresh.name)
    for name in new:
        (directory / name).parent.mkdir(exist_ok=True)
        (fresh / name).replace(directory / name)
    for name in old.keys() - new.keys():
        with suppress(OSError):
            if _is_own(directory / name, directory, old[name]):
                (directory / name).unlink()
    shutil.rmtree(fresh, ignore_errors=True)
    _mark(directory, new)


def _mark(directory: Path, files: _Sums, building: str | None = None) -> None:
    data = {"files": files, **({} if building is None else {"building": building})}
    replace(directory / MARKER, json.dumps(data, indent=0).encode())
