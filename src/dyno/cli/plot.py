"""`dyno plot`: the charts of a run as SVG or PNG."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dyno import results
from dyno.cli import files, flag_values
from dyno.cli.flag_values import output_option
from dyno.contracts.model import UsageError
from dyno.report.charts import FIXED, draw, lines, plot
from dyno.report.charts.plot import Choice

SCALE = 2.0
OPENING = "<!-- A chart of dyno -->\n"
"""First line of an SVG file. In a directory, only files that have it are replaced."""
NAMES = ", ".join([*(chart.name for chart in FIXED), lines.CLIENTS, lines.NAME])


def _list_option(*words: str, metavar: str = "NAME[,...]", help: str) -> Callable[[Any], Any]:
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
@click.option("--dark", is_flag=True, help="Use a dark background.")
@click.option(
    "--width",
    type=click.IntRange(300, 10_000),
    metavar="PX",
    help="Width in pixels. Default: 800, or 1160 for several panels.",
)
@click.option("--scale", type=click.FloatRange(0.1, 10), help="Enlarge a PNG by this factor. Default: 2.")
def plot_command(
    run: Path,
    name: str | None,
    path: str | None,
    by: str | None,
    width: int | None,
    scale: float | None,
    **flags: Any,
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
    phases, engines = (flag_values.split(flags[each]) for each in ("phases", "engines"))
    choice = Choice(phases, flags["tier"], flag_values.params(flags["params"]), engines, flags["baseline"])
    into_directory = path.endswith("/") or Path(path).is_dir()
    suffix = ".svg" if into_directory or files.is_output(path) else Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise UsageError(f"-o {path}: expected a name in .svg or .png, or a directory with a / at its end")
    if not into_directory and not name:
        raise UsageError(f"-o {path} is one picture: add --chart with one of {NAMES}; or use -o DIR/ for all")
    if scale is not None and suffix == ".svg":
        raise UsageError("--scale is for PNG: an SVG has no pixels")
    if not into_directory:
        files.check(path)
    loaded = results.load(run)
    choice = plot.check(loaded, choice)
    if name is None:
        drawings = plot.drawings(loaded, choice, width)
    else:
        drawings = [plot.drawing(loaded, plot.chart(loaded, name, by), choice, width)]
    paths = {d.file: str(Path(path) / f"{d.file}.svg") if into_directory else path for d in drawings}
    if Path(path).is_dir():
        # The user did not give these names: replace only charts of dyno, and follow no link.
        for file in paths.values():
            if Path(file).is_symlink():
                raise UsageError(
                    f"{file} is a link, which is not followed: remove it, or name another directory with -o"
                )
            if files.opening(file, len(OPENING)) not in (None, OPENING.encode()):
                raise UsageError(
                    f"{file} exists and is not a chart of dyno: move it away, or name another directory with -o"
                )
            files.check(file)
    # Frees the memory of a large run for the renderer.
    del loaded
    draw.trim()
    for drawing in drawings:
        picture = drawing.svg(flags["dark"])
        if into_directory:
            files.directory(path)
        content = (OPENING + picture).encode() if suffix == ".svg" else draw.png(picture, scale or SCALE)
        files.save(paths[drawing.file], content)
