"""Tests that `dyno plot` writes the requested picture, which names its run, its machine and its doubts.

Covers the selection of rows, the titles, the exact size, and the one-line errors for charts that can't be drawn.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import runfiles
from madeup import written as written_run
from runfiles import RECORDS_PHASES
from shell import Ended, Shell, is_one_line

from dyno.host import installation
from dyno.report.charts import FIXED, vega

pytestmark = pytest.mark.usefixtures("processes")

NAMES = [chart.name for chart in FIXED]
PANEL = ("--phase", "rand-key", "--tier", "process")
"""Selects one panel."""
ENGINES = "lmdb,sqlite,sqlite:cache_mib=8,memory"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """Two run files: four engines, and two engines with one and two clients."""
    home = tmp_path_factory.mktemp("plot")
    run = runfiles.measured_records()
    written_run(run, home / "r.json")
    written_run(runfiles.with_clients(run, ("lmdb", "sqlite"), 1, 2), home / "c.json")
    return {name: (home / name).read_bytes() for name in ("r.json", "c.json")}


@pytest.fixture
def shell(shell: Shell, files: Mapping[str, bytes]) -> Shell:
    for name, content in files.items():
        (shell.home / name).write_bytes(content)
    return shell


def svg(shell: Shell, *arguments: object, run: str = "r.json") -> ElementTree.Element:
    ended = shell.dyno("plot", run, *arguments, "-o", "x.svg")
    assert ended == Ended(0, "", "Written to x.svg\n")
    return ElementTree.parse(shell.home / "x.svg").getroot()


def texts(drawn: ElementTree.Element) -> list[str]:
    """Returns the lines of text of an SVG."""
    return [found.text for found in drawn.iter() if found.tag.endswith(("}text", "}tspan")) and found.text]


def refused(shell: Shell, *arguments: object) -> str:
    ended = shell.dyno("plot", *arguments)
    assert (ended.status, ended.out) == (2, ""), ended
    assert is_one_line(ended.err)
    return ended.err


def written(shell: Shell) -> list[str]:
    return sorted(str(path.relative_to(shell.home)) for path in shell.home.rglob("*.[sp][vn]g"))


def edit(path: Path, change: Any) -> None:
    """Changes every trial of a run file."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[1:]:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# -- contents of a picture ------------------------------------------------------------------------------------


def test_chart_names_its_phase_parameters_and_rows(shell: Shell) -> None:
    shown = texts(svg(shell, "--chart", "throughput", *PANEL))
    assert "Throughput: rand-key, tier process" in shown
    whole = " ".join(shown)
    for fact in ("records: records=100", "3 of 3 trials of each row", "95 % interval over trials", "seed 1", "cores"):
        assert fact in whole
    assert {"lmdb", "sqlite", "sqlite:cache_mib=8", "nullkv (floor)"} <= set(shown)
    assert "memory" not in shown, "of another tier"


def test_panel_titles_name_only_varying_values(shell: Shell) -> None:
    shown = texts(svg(shell, "--chart", "throughput"))
    panels = {text for text in shown if ", tier " in text}
    assert panels == {f"{phase}, tier {tier}" for phase in RECORDS_PHASES for tier in ("volatile", "process")}
    assert "Throughput" in shown
    assert {"Throughput: tier process", *RECORDS_PHASES} <= set(
        texts(svg(shell, "--chart", "throughput", "--tier", "process"))
    )
    assert {"Throughput: rand-key, tier process", "clients=1", "clients=2"} <= set(
        texts(svg(shell, "--chart", "throughput", run="c.json"))
    )


@pytest.mark.claim("Doubts are shown beside the number in pages and charts too")
def test_chart_lists_doubts_of_its_rows(shell: Shell) -> None:
    shown = "\n".join(texts(svg(shell, "--chart", "latency", *PANEL)))
    assert re.search(r"^short: a trial measured for less than 10 ms", shown, re.MULTILINE)
    assert re.search(r"^columns: sqlite keeps a record in columns", shown, re.MULTILINE)
    assert "floor:" not in shown, "it has none"
    flags = ("-e", "null,memory", "--phase", "rand-key")
    assert "floor: null does nothing" in "\n".join(texts(svg(shell, "--chart", "throughput", *flags)))
    # Doubts of rows outside the picture are left out.
    alone = "\n".join(texts(svg(shell, "--chart", "latency", "-e", "lmdb")))
    assert "columns:" not in alone and "floor:" not in alone


def test_row_without_figure_is_named_in_every_chart(shell: Shell) -> None:
    cells = json.loads((shell.home / "r.json").read_text().splitlines()[0])["cells"]
    at = next(at for at, cell in enumerate(cells) if (cell["engine"], cell["options"]) == ("sqlite", {}))

    def spoil(trial: Any) -> None:
        for sample in trial["samples"] if trial["cell"] == at else ():
            if sample["phase"] == "rand-key":
                sample["void"] = "got 1, expected 2"

    edit(shell.home / "r.json", spoil)
    for name in ("throughput", "latency", "size", "ratios"):
        shown = svg(shell, "--chart", name, *PANEL)
        assert any("no number for sqlite in rand-key: void: got 1, expected 2" in text for text in texts(shown))
        marks = [mark.get("aria-label", "") for mark in shown.iter() if mark.get("role") == "graphics-symbol"]
        assert any(mark.startswith(("lmdb,", "lmdb against", "sqlite:cache_mib=8 against")) for mark in marks)
        assert not any(mark.startswith(("sqlite,", "sqlite against")) for mark in marks)


def test_chart_shows_only_selected_rows(shell: Shell) -> None:
    shown = texts(svg(shell, "--chart", "latency", "-e", "sqlite,sqlite:cache_mib=8", "--phase", "rand-key"))
    assert {"sqlite", "sqlite:cache_mib=8"} <= set(shown)
    assert not {"lmdb", "memory"} & set(shown), "in the legend neither"
    shown = texts(svg(shell, "--chart", "throughput", "-p", "clients=2", run="c.json"))
    assert "Throughput: rand-key, tier process, clients=2" in shown


def test_an_engine_keeps_its_colour_whatever_is_shown(shell: Shell) -> None:
    for chosen in (ENGINES, "sqlite", "sqlite:cache_mib=8,sqlite"):
        drawn = svg(shell, "--chart", "throughput", "-e", chosen, "--phase", "rand-key")
        bars = {str(m.get("aria-label")).split(",")[0]: m.get("fill") for m in drawn.iter() if m.get("aria-label")}
        assert bars["sqlite"] == vega.scale(["sqlite"], "color")["range"][0]


def test_ratio_baseline_defaults_to_best_shown_engine(shell: Shell) -> None:
    def slower(trial: Any) -> None:
        for sample in trial["samples"]:
            sample["elapsed_ns"] = sample["items"] * (trial["cell"] + 1) * 1_000

    edit(shell.home / "r.json", slower)
    asked = ("--chart", "ratios", "--phase", "rand-key")
    shown = texts(svg(shell, *asked))
    assert "Ratios: rand-key, tier process, throughput against lmdb" in shown
    assert {"sqlite", "sqlite:cache_mib=8"} <= set(shown) and "lmdb" not in shown
    shown = texts(svg(shell, *asked, "--baseline", "sqlite"))
    assert "Ratios: rand-key, tier process, throughput against sqlite" in shown
    assert {"lmdb", "sqlite:cache_mib=8"} <= set(shown) and "sqlite" not in shown
    shown = texts(svg(shell, *asked, "-e", "sqlite,sqlite:cache_mib=8"))
    assert "Ratios: rand-key, tier process, throughput against sqlite" in shown, "the best of what is shown"


# -- files ----------------------------------------------------------------------------------------------------


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize(
    ("width", "scale", "pixels"),
    [(None, 1, 800), (761, 3, 2283), (800, None, 1600)],
)
def test_png_has_the_requested_width(shell: Shell, width: int | None, scale: int | None, pixels: int) -> None:
    flags = [str(word) for name, value in (("--width", width), ("--scale", scale)) if value for word in (name, value)]
    ended = shell.dyno("plot", "r.json", "--chart", "throughput", *PANEL, *flags, "-o", "x.png")
    assert ended == Ended(0, "", "Written to x.png\n")
    assert size((shell.home / "x.png").read_bytes())[0] == pixels


def test_narrow_width_is_refused_with_minimum_width(shell: Shell) -> None:
    one = ("--chart", "throughput", *PANEL, "--scale", "1", "-o", "x.png")
    said = refused(shell, "r.json", *one, "--width", "300")
    # The least width depends on the doubts beside the bars, of which a busy machine has more.
    least = int(said.rpartition(" ")[2])
    assert "--width 300 is too narrow" in said and 300 < least < 800
    assert "too narrow" in refused(shell, "r.json", *one, "--width", str(least - 1))
    assert shell.dyno("plot", "r.json", *one, "--width", str(least)).status == 0
    assert size((shell.home / "x.png").read_bytes())[0] == least


@pytest.mark.parametrize("name", ["throughput", "ratios", "latency", "size"])
def test_svg_has_the_requested_width(shell: Shell, name: str) -> None:
    assert svg(shell, "--chart", name, "--phase", "rand-key", "--width", "1001").get("width") == "1001"


def test_panels_stack_vertically_in_narrow_chart(shell: Shell) -> None:
    heights = [int(svg(shell, "--chart", "ratios", "--width", width).get("height", 0)) for width in (1_200, 2_400)]
    assert heights[0] > heights[1] + 100


def test_dark_flag_selects_dark_background(shell: Shell) -> None:
    for flags, background in (((), vega.LIGHT), (("--dark",), vega.DARK)):
        drawn = svg(shell, "--chart", "throughput", *PANEL, *flags)
        first = next(found for found in drawn if found.tag.endswith("}rect"))
        assert first.get("fill") == background


def test_output_directory_gets_every_applicable_chart(shell: Shell) -> None:
    ended = shell.dyno("plot", "r.json", *PANEL, "-o", "charts/")
    names = ["account", "latency", "ratios", "size", "throughput"]
    assert written(shell) == [f"charts/{name}.svg" for name in names]
    assert sorted(ended.err.splitlines()) == [f"Written to charts/{name}.svg" for name in names]
    # An existing directory needs no slash, and a chart may be named.
    (shell.home / "one").mkdir()
    assert shell.dyno("plot", "c.json", "--chart", "clients", "-o", "one").status == 0
    assert (shell.home / "one" / "clients.svg").exists()
    # A floor alone is not drawn.
    assert "nothing of what was chosen for any chart" in refused(shell, "r.json", "-e", "null", "-o", "charts/")


def test_foreign_files_in_output_directory_are_kept(shell: Shell) -> None:
    charts, own = shell.home / "own-charts", shell.home / "own.svg"
    flags = (*PANEL, "-e", "lmdb", "-o", "own-charts/")
    assert shell.dyno("plot", "r.json", *flags).status == 0
    assert shell.dyno("plot", "r.json", *flags).status == 0, "its own charts are replaced"
    before = (charts / "size.svg").read_bytes()
    own.write_text("my own")
    for is_link in (False, True):
        (charts / "latency.svg").unlink()
        if is_link:
            (charts / "latency.svg").symlink_to(own)
        else:
            (charts / "latency.svg").write_text("my own")
        assert "charts/latency.svg" in refused(shell, "r.json", *flags)
        assert (charts / "latency.svg").read_text() == own.read_text() == "my own"
        assert (charts / "size.svg").read_bytes() == before, "nothing is written before all is checked"


def test_existing_output_file_is_replaced(shell: Shell) -> None:
    (shell.home / "x.svg").write_text("old")
    assert svg(shell, "--chart", "size", *PANEL).tag.endswith("svg")


# -- refused pictures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--chart", "latency"), "-o is missing"),
        (("--chart", "latncy", "-o", "x.svg"), "r.json: chart latncy is not known; did you mean latency?"),
        (("-o", "x.svg"), "--chart with one of throughput, ratios"),
        (("--chart", "latency", "-o", "x.gif"), "-o x.gif: expected a name in .svg or .png"),
        (("--chart", "latency", "--scale", "2", "-o", "x.svg"), "--scale is for PNG"),
        (("--chart", "latency", "--baseline", "lmdb", "-o", "x.svg"), "--baseline is for the chart ratios"),
        (("--chart", "latency", "--phase", "rand-kye", "-o", "x.svg"), "did you mean rand-key?"),
        (
            ("--chart", "latency", "--tier", "power", "-o", "x.svg"),
            "tier power is not known; there are: process, volatile",
        ),
        (
            ("--chart", "latency", "-e", "lmdb", "-e", "sqlit", "-o", "x.svg"),
            "engine sqlit is not known; did you mean sqlite?",
        ),
        (("--chart", "ratios", "--baseline", "lmbd", "-o", "x.svg"), "engine lmbd is not known; did you mean lmdb?"),
        (("--chart", "latency", "-p", "clinets=1", "-o", "x.svg"), "did you mean clients?"),
        (("--chart", "latency", "-p", "clients=9", "-o", "x.svg"), "clients of 9"),
        (("--chart", "latency", "-p", "clients", "-o", "x.svg"), "-p: expected NAME=VALUE[,VALUE...], got 'clients'"),
        (
            ("--chart", "series", "-o", "x.svg"),
            "nothing for the chart series, which takes phases of two seconds or more",
        ),
        (
            ("--chart", "clients", "-o", "x.svg"),
            "several numeric values of clients: dyno run --clients 1,2,4",
        ),
        (("--chart", "sweep:recrods", "-o", "x.svg"), "r.json: chart sweep:recrods is not known"),
        (
            ("--chart", "sweep:records", "-o", "x.svg"),
            "several numeric values of records: dyno run -p records=",
        ),
        (
            ("--chart", "clients", "--metric", "p9", "-o", "x.svg"),
            "r.json: metric p9 is not known; did you mean p99?",
        ),
        (("--chart", "latency", "--metric", "p99", "-o", "x.svg"), "--metric is for sweeps"),
        (("--metric", "p99", "-o", "charts/"), "--metric needs --chart"),
        (
            ("--chart", "ratios", "--tier", "volatile", "-o", "x.svg"),
            "nothing of what was chosen for the chart ratios",
        ),
        (
            ("--chart", "latency", "--phase", "insert-blind-indices", "-o", "x.svg"),
            "a phase that times each operation",
        ),
        (("--chart", "ratios", "--width", "300", "-o", "x.svg"), "--width 300 is too narrow for this chart"),
        (("--chart", "latency", "-o", "r.json/x.svg"), "can't write r.json/x.svg"),
    ],
)
def test_impossible_chart_is_refused_in_one_line(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(shell, "r.json", *arguments)
    assert written(shell) == []


def test_missing_run_file_is_refused_in_one_line(shell: Shell) -> None:
    assert "can't read none.json" in refused(shell, "none.json", "--chart", "latency", "-o", "x.svg")


def test_missing_chart_library_gets_install_hint(shell: Shell) -> None:
    (shell.home / "hidden").mkdir()
    (shell.home / "hidden" / "vl_convert.py").write_text("raise ModuleNotFoundError('not here')")
    shell.given["PYTHONPATH"] = str(shell.home / "hidden")
    assert installation.extra_command("report") in refused(shell, "r.json", "--chart", "latency", "-o", "x.svg")
