"""`dyno report`, `dyno site` and `dyno plot`: run files as one HTML page that works by itself, as a static site, and
charts as SVG or PNG."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dyno import results
from dyno.bundles.container import ENDING
from dyno.cli import files, flag_values
from dyno.cli.console import output, progress
from dyno.cli.flag_values import PATH, output_option
from dyno.cli.show import PRICES
from dyno.contracts.model import UsageError
from dyno.report.charts import FIXED, lines, plot
from dyno.report.charts.plot import Choice
from dyno.report.page import relative
from dyno.report.page.build import OPENING, build
from dyno.report.page.parts import MOST_BYTES
from dyno.report.tables import machines, sections, side_by_side
from dyno.results.names import distinct_names
from dyno.stats import machine_choice
from dyno.stats.costs import costs, read_prices

if TYPE_CHECKING:
    from click.decorators import FC

HEAD_BYTES = 4_000
"""Length of the start of a page, which names its preview picture."""
OTHER_ENDINGS = {
    ".pdf": "to print it, open it in a browser",
    **dict.fromkeys((".png", ".svg", ".jpg", ".jpeg"), "for a picture, use `dyno plot`"),
    **dict.fromkeys((".csv", ".md", ".json", ".txt", ".tsv", ".xlsx"), "for the figures, use `dyno show`"),
}


@click.command(name="report")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN...")
@output_option("Page to write. -: standard output. Default: the first RUN's name, in .html.", "FILE.html")
@click.option("--overwrite", is_flag=True, help="Replace FILE.html even if it is not a report.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@click.option(
    "--url",
    metavar="URL",
    help="Address that the page will have: links to it show a preview, a .png written beside FILE.html.",
)
@click.option("--prices", "table", type=PATH, metavar="FILE", help=PRICES)
@click.option(
    "--by",
    type=click.Choice(["place", "machine"]),
    help="Print tables and write no page. place: requests by client's and server's place, part by part. machine:"
    " which machine to buy, by the work that all did, with --prices also by cost; and ratios of engines within each"
    " machine. Places and machines are named as their run files or folders.",
)
def report_command(runs: tuple[Path, ...], path: str | None, url: str | None, by: str | None, **flags: Any) -> None:
    """Write the run files RUN as one self-contained HTML page.

    \b
    dyno report r.json
    dyno report before.json after.json -o both.html
    dyno report paris.json tokyo.json --by place
    """
    show, table, overwrite = (flags[name] for name in ("show", "table", "overwrite"))
    if by is not None:
        if path is not None or show or url or (table and by == "place"):
            prices_too = " and --prices" * (by == "place")
            raise UsageError(f"--by prints tables and writes no page: leave out -o, --open, --url{prices_too}")
        _print_by(by, [results.load(run) for run in runs], table)
        return
    page = path or str(files.sidecar(runs[0], ".html"))
    if files.is_output(page) and (show or url):
        raise UsageError(f"{'--open' if show else '--url'} needs a page in a file, got -o {page}")
    _check_page(page, path is not None, overwrite)
    link, picture = relative.link(url, Path(page).name) if url else None, str(Path(page).with_suffix(".png"))
    if link:
        _check_picture(picture, page, link, overwrite)
    prices = None if table is None else read_prices(table)
    loaded = [results.load(run) for run in runs]
    content = build(loaded, link=link, prices=prices).encode()
    if link:
        files.save(picture, relative.preview(loaded[0]))
    files.save(page, content)
    if len(content) > MOST_BYTES:
        print(f"{page} has {len(content) / 1e6:.1f} MB: the results alone are that large", file=sys.stderr)
    for run in loaded:
        if not run.complete:
            print(f"{run.path} is not complete; the page says so", file=sys.stderr)
    if show and not webbrowser.open(Path(page).absolute().as_uri()):
        print("can't open the page: no browser found", file=sys.stderr)


def _print_by(by: str, runs: list[results.Run], table: Path | None) -> None:
    """Prints the tables by place or by machine. Raises UsageError."""
    if by == "place":
        sections.render(side_by_side.by_place(runs), output(), aligned=False, blank_first=False)
        return
    prices = None if table is None else read_prices(table)
    tables = list(machines.by_machine(runs, prices))
    if prices is not None:
        machine = {id(run): each.name for each in machine_choice.machines(runs) for run in each.runs}
        names = distinct_names([run.path for run in runs])
        of_runs = [(run, name, costs(run, prices, [machine[id(run)]])) for run, name in zip(runs, names, strict=True)]
        tables.append(side_by_side.by_cost(of_runs, prices))
    sections.render(tables, output(), aligned=False, blank_first=False)


def _check_page(page: str, by_user: bool, overwrite: bool) -> None:
    """Raises UsageError for a name that is not a page's, and if another file than a report would be replaced. A link
    is followed only if the user named it."""
    if not by_user and Path(page).is_symlink():
        raise UsageError(f"{page} is a link: replace its target by -o {page}, or name another file")
    if not overwrite and files.read_head(page, len(OPENING)) not in (None, OPENING.encode()):
        raise UsageError(f"{page} exists and is not a report: replace it by --overwrite, or name another file by -o")
    files.check(page)
    if (suffix := Path(page).suffix.lower()) in OTHER_ENDINGS:
        raise UsageError(
            f"{page}: a report is an HTML page: expected a name in .html, got {suffix}; {OTHER_ENDINGS[suffix]}"
        )


def _check_picture(picture: str, page: str, link: relative.Link, overwrite: bool) -> None:
    """Raises UsageError if another picture than the page's would be replaced."""
    if Path(picture).is_symlink():
        # The user did not name it: its name follows from the page's.
        raise UsageError(f"{picture} is a link, which is not followed: remove it, or name another page by -o")
    reference = f'/{link.file}"'.encode()
    if not overwrite and Path(picture).exists() and reference not in (files.read_head(page, HEAD_BYTES) or b""):
        raise UsageError(
            f"{picture} exists and is not the picture of {page}: replace it by --overwrite, or name another by -o"
        )
    files.check(picture)


@contextmanager
def _open_run(path: Path) -> Iterator[results.Run]:
    """Loads a run file, or verifies a bundle and loads its run, which then has the bundle's name. Raises
    UsageError."""
    if path.suffix != ENDING:
        yield results.load(path)
        return
    from dyno.bundles import bundle

    with bundle.open_bundle(path) as shared:
        run_file = shared.run.path.rename(shared.home / f"{path.stem}.json")
        yield replace(shared.run, path=run_file)


@click.command(name="site")
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN|BUNDLE|DIR...")
@output_option("Directory to write the site to.", "DIR", required=True)
@click.option(
    "--url",
    default="",
    metavar="URL",
    help="Address that the site will have: links to its pages show a preview.",
)
def site_command(runs: tuple[Path, ...], path: str, url: str) -> None:
    """Write a static site of run files and bundles, and of those in and below each DIR.

    \b
    dyno site runs/ -o site/
    dyno site before.json after.json -o site/
    dyno site r.json theirs.dyno -o site/
    """
    from dyno.report.site import build as site

    if files.is_output(path):
        raise UsageError(f"-o: expected a directory, got {path}")
    address = url and f"{url.rstrip('/')}/"
    if address:
        relative.check_url(address)
    site.check(Path(path))
    pages = site.build(site.find(runs), lambda why: print(f"skipped: {why}", file=sys.stderr), address, _open_run)

    def with_progress() -> Iterator[tuple[str, str | bytes]]:
        with progress().status("Reading the runs") as status:
            for name, content in pages:
                status.update(f"Written: {name}")
                yield name, content

    site.write(Path(path), with_progress())
    print(Path(path) / "index.html")


SCALE = 2.0
CHART_OPENING = "<!-- A chart of dyno -->\n"
"""First line of an SVG file. In a directory, only files that have it are replaced."""
NAMES = ", ".join([*(chart.name for chart in FIXED), lines.CLIENTS, lines.NAME])


def _list_option(*words: str, metavar: str = "NAME[,...]", help: str) -> Callable[[FC], FC]:
    return click.option(*words, multiple=True, metavar=metavar, help=help)


@click.command(name="plot")
@click.argument("run", type=flag_values.PATH, metavar="RUN")
@click.option("--chart", "name", metavar="NAME", help=f"One of {NAMES}, or one of the suite's own charts.")
@output_option(
    "An .svg or .png to write; -: an SVG on standard output; or a directory, for every chart as SVG.", "FILE|DIR/"
)
@_list_option("--phase", "--phases", "phases", help="Draw only these phases.")
@click.option("--tier", metavar="TIER", help="Draw only this tier.")
@_list_option("-p", "--param", "params", metavar="NAME=V1[,V2...]", help="Draw only these values of a parameter.")
@_list_option(
    "-e", "--engine", "engines", metavar="ENGINE[,...]", help="Draw only these engines, by name or row title."
)
@click.option("--baseline", metavar="ENGINE", help="Baseline of the chart ratios. Default: the best of each phase.")
@click.option("--metric", "by", metavar="NAME", help="Quantity of a sweep: a metric of `dyno compare`, or a fact.")
@click.option("--prices", "table", type=PATH, metavar="FILE", help="Prices with a load, for the chart cost.")
@click.option("--dark", is_flag=True, help="Use a dark background.")
@click.option(
    "--width",
    type=click.IntRange(300, 10_000),
    metavar="PX",
    help="Width in pixels. Default: 800, or 1160 for several panels.",
)
@click.option("--scale", type=click.FloatRange(0.1, 10), help="Enlarge a PNG by this factor. Default: 2.")
def plot_command(
    run: Path, name: str | None, path: str | None, by: str | None, table: Path | None, **flags: Any
) -> None:
    """Draw a chart of the run file RUN, without a browser.

    \b
    dyno plot r.json --chart latency -o latency.svg
    dyno plot r.json --chart ratios --baseline sqlite --phase rand-key --dark -o ratios.png
    dyno plot r.json -o charts/
    """
    if path is None:
        raise UsageError("-o is missing: give -o x.svg or -o x.png with --chart, or -o charts/ for every chart")
    if flags["baseline"] and name not in (None, "ratios"):
        raise UsageError(f"--baseline is for the chart ratios, not for {name}")
    if by and not name:
        raise UsageError("--metric needs --chart, with the name of a sweep")
    phases, engines = (flag_values.split_at_commas(flags[each]) for each in ("phases", "engines"))
    choice = Choice(phases, flags["tier"], flag_values.params(flags["params"]), engines, flags["baseline"])
    into_directory = path.endswith("/") or Path(path).is_dir()
    suffix = ".svg" if into_directory or files.is_output(path) else Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise UsageError(f"-o {path}: expected a name in .svg or .png, or a directory with a / at its end")
    if not into_directory and not name:
        raise UsageError(f"-o {path} is one picture: add --chart with one of {NAMES}; or use -o DIR/ for all")
    scale = flags["scale"]
    if scale is not None and suffix == ".svg":
        raise UsageError("--scale is for PNG: an SVG has no pixels")
    if not into_directory:
        files.check(path)
    loaded, prices = results.load(run), None if table is None else read_prices(table)
    choice = plot.check(loaded, choice)
    if name is None:
        drawings = plot.drawings(loaded, choice, flags["width"], prices)
    else:
        drawings = [plot.draw_chart(loaded, plot.chart(loaded, name, by, prices), choice, flags["width"])]
    paths = {d.file: str(Path(path) / f"{d.file}.svg") if into_directory else path for d in drawings}
    if Path(path).is_dir():
        # The user did not give these names: replace only charts of dyno, and follow no link.
        for file in paths.values():
            if Path(file).is_symlink():
                raise UsageError(
                    f"{file} is a link, which is not followed: remove it, or name another directory with -o"
                )
            if files.read_head(file, len(CHART_OPENING)) not in (None, CHART_OPENING.encode()):
                raise UsageError(
                    f"{file} exists and is not a chart of dyno: move it away, or name another directory with -o"
                )
            files.check(file)
    # Frees the memory of a large run for the renderer.
    del loaded
    for drawing in drawings:
        picture = drawing.svg(flags["dark"])
        if into_directory:
            files.directory(path)
        content = (CHART_OPENING + picture).encode() if suffix == ".svg" else plot.png(picture, scale or SCALE)
        files.save(paths[drawing.file], content)
