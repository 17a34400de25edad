"""`dyno plot`: the charts of a run as SVG or PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dyno import results
from dyno.cli import files, flag_values
from dyno.contracts.model import UsageError
from dyno.report.charts import FIXED, draw, plot, sweep
from dyno.report.charts.plot import Choice
from dyno.report.export.free_memory import trim

SCALE = 2.0
OPENING = "<!-- A chart of dyno -->\n"
"""First line of an SVG file: only files that have it are replaced where their names were not given."""
NAMES = ", ".join([*(chart.name for chart in FIXED), sweep.CLIENTS, sweep.NAME])


@click.command(name="plot")
@click.argument("run", type=flag_values.PATH, metavar="RUN")
@click.option("--chart", "name", metavar="NAME", help=f"One of: {NAMES}; or one of the suite's own.")
@click.option(
    "-o",
    "--output",
    "path",
    type=flag_values.NAME,
    metavar="FILE|DIR/",
    help="An .svg or .png to write, or - for an SVG on standard output; or a directory, for every chart as SVG.",
)
@click.option("--phase", "--phases", "phases", multiple=True, metavar="NAME[,...]", help="Only these phases.")
@click.option("--tier", metavar="TIER", help="Only this tier.")
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=V1[,V2...]", help="Only these values.")
@click.option(
    "-e",
    "--engine",
    "engines",
    multiple=True,
    metavar="ENGINE[,...]",
    help="Only these, as asked for or as tables call them.",
)
@click.option("--baseline", metavar="ENGINE", help="Of the ratios. Default: the best of each phase.")
@click.option("--metric", "by", metavar="NAME", help="Of a sweep: a metric as of `dyno compare`, or a fact.")
@click.option("--dark", is_flag=True, help="On a dark background.")
@click.option(
    "--width", type=click.IntRange(300, 10_000), metavar="PX", help="Default: 800, or 1160 for several panels."
)
@click.option("--scale", type=click.FloatRange(0.1, 10), help="Of a PNG: how many times as many pixels. Default: 2.")
def command(
    run: Path,
    name: str | None,
    path: str | None,
    by: str | None,
    width: int | None,
    scale: float | None,
    **given: Any,
) -> None:
    """Draw a chart of the run file RUN, without a browser.

    \b
    dyno plot r.json --chart latency -o latency.svg
    dyno plot r.json --chart ratios --baseline sqlite --phase rand-key --dark -o ratios.png
    dyno plot r.json -o charts/
    """
    if path is None:
        raise UsageError("-o says what to write: -o x.svg or -o x.png with --chart, or -o charts/ for every chart")
    if given["baseline"] and name not in (None, "ratios"):
        raise UsageError(f"--baseline is for the chart ratios, and {name} has none")
    if by and not name:
        raise UsageError("--metric is for a sweep: --chart names it")
    phases, engines = (flag_values.split(given[name]) for name in ("phases", "engines"))
    choice = Choice(phases, given["tier"], flag_values.params(given["params"]), engines, given["baseline"])
    into_directory = path.endswith("/") or Path(path).is_dir()
    suffix = ".svg" if into_directory or files.is_output(path) else Path(path).suffix.lower()
    _agree(path, suffix, into_directory or bool(name), scale)
    if not into_directory:
        files.check(path)
    made = _drawings(run, choice, name, by, width)
    paths = {drawing.file: str(Path(path) / f"{drawing.file}.svg") if into_directory else path for drawing in made}
    if Path(path).is_dir():
        for file in paths.values():
            files.check_own(file, OPENING.encode(), "a chart of dyno", "name another directory with -o")
    # The run, of which a large one has no room beside what draws.
    trim()
    for drawing in made:
        picture = drawing.svg(given["dark"])
        if into_directory:
            files.directory(path)
        if suffix == ".svg":
            files.save(paths[drawing.file], (OPENING + picture).encode())
        else:
            files.save(paths[drawing.file], draw.png(picture, scale or SCALE))


def _drawings(run: Path, choice: Choice, name: str | None, by: str | None, width: int | None) -> list[plot.Drawing]:
    loaded = results.load(run)
    choice = plot.check(loaded, choice)
    if name is None:
        return plot.drawings(loaded, choice, width)
    return [plot.drawing(loaded, plot.chart(loaded, name, by), choice, width)]


def _agree(path: str, suffix: str, named: bool, scale: float | None) -> None:
    """Raises UsageError for flags that don't go together."""
    if suffix not in (".svg", ".png"):
        raise UsageError(f"-o {path}: wants a name in .svg or .png, or a directory, with a / at its end")
    if not named:
        raise UsageError(
            f"-o {path} is one picture and wants --chart NAME, one of {NAMES}; -o DIR/ is for all of them"
        )
    if scale is not None and suffix == ".svg":
        raise UsageError("--scale is for PNG: an SVG has no pixels")
