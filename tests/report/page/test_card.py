"""The preview image: its answer and bars, its address in the page, and files that it must not replace."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest
import runfiles
from shell import Shell, is_one_line

from dyno import results
from dyno.contracts.model import Tier, UsageError
from dyno.report.page import relative

pytestmark = pytest.mark.usefixtures("processes", "without_static_charts")

ADDRESS = "https://bench.example/"
HOSTILE = '</text><script>alert("x")</script>&'


def said(drawn: str) -> list[str]:
    return [
        "".join(text.itertext()) for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
    ]


def named(page: Path) -> dict[str, str]:
    return dict(re.findall(r'<meta property="og:([\w:]+)" content="([^"]*)">', page.read_text()))


def size(picture: Path) -> tuple[int, int]:
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_preview_image_shows_answer_and_relative_speeds(tmp_path: Path) -> None:
    engines = ("quick", "even", HOSTILE)
    run = results.load(runfiles.write(tmp_path / "r.json", tiers={Tier.PROCESS: engines}))
    brand, *headline, first, mark, second, slower, third, _, foot = said(relative.svg(run))
    assert brand == "Dyno records" and foot.startswith("A Processor")
    assert " ".join(headline).startswith("At tier process, quick is the fastest") and "sure" not in " ".join(headline)
    assert first.startswith("quick 1.0") and mark == "fastest"
    assert second.startswith("even 0.") and slower.startswith("slower")
    assert third.startswith(HOSTILE)


def test_preview_image_without_valid_figures_says_so(tmp_path: Path) -> None:
    errors = dict.fromkeys(runfiles.ENGINES, "no")
    run = results.load(runfiles.write(tmp_path / "r.json", tiers={Tier.PROCESS: runfiles.ENGINES}, errors=errors))
    assert "No engine has a valid figure" in " ".join(said(relative.svg(run)))


def test_report_with_url_writes_and_links_preview_image(tmp_path: Path, shell: Shell) -> None:
    run = runfiles.write(tmp_path / "r.json")
    page, picture = tmp_path / "my page.html", tmp_path / "my page.png"
    for _ in range(2):
        assert shell.dyno("report", run, "-o", page, "--url", ADDRESS).status == 0
    assert named(page)["url"] == f"{ADDRESS}my%20page.html" and named(page)["image"] == f"{ADDRESS}my%20page.png"
    assert size(picture) == (int(named(page)["image:width"]), int(named(page)["image:height"])) == (1200, 630)
    assert shell.dyno("report", run, "-o", page).status == 0
    assert "image" not in named(page)
    # The user replaces the image by another.
    before = picture.read_bytes()
    picture.write_bytes(b"mine")
    ended = shell.dyno("report", run, "-o", page, "--url", ADDRESS)
    assert ended.status == 2 and is_one_line(ended.err) and "--overwrite" in ended.err
    assert picture.read_bytes() == b"mine" and "image" not in named(page)
    assert shell.dyno("report", run, "-o", page, "--url", ADDRESS, "--overwrite").status == 0
    assert picture.read_bytes() == before


def test_symlink_at_default_output_path_is_refused(tmp_path: Path, shell: Shell) -> None:
    run, page, picture = runfiles.write(tmp_path / "r.json"), tmp_path / "r.html", tmp_path / "r.png"
    assert shell.dyno("report", run, "--url", ADDRESS).status == 0
    for name in (page, picture):
        away = tmp_path / f"away{name.suffix}"
        name.rename(away)
        name.symlink_to(away)
        before = away.read_bytes()
        ended = shell.dyno("report", run, "--url", f"{ADDRESS}other", "--overwrite")
        assert ended.status == 2 and is_one_line(ended.err) and f"{name} is a link" in ended.err
        assert away.read_bytes() == before
        away.replace(name)


def test_site_with_url_writes_preview_image_per_run(tmp_path: Path, shell: Shell) -> None:
    run, site = runfiles.write(tmp_path / "r.json"), tmp_path / "site"
    assert shell.dyno("site", run, "-o", site, "--url", ADDRESS.rstrip("/")).status == 0
    assert named(site / "runs" / "r.html")["image"] == f"{ADDRESS}runs/r.png"
    assert size(site / "runs" / "r.png") == (1200, 630)
    assert shell.dyno("site", run, "-o", site).status == 0
    assert not (site / "runs" / "r.png").exists()


@pytest.mark.parametrize("url", ["bench.example", "ftp://a/", "https://", "https://a/?q=1", "https://[/", "//a/"])
def test_invalid_url_is_refused_in_one_line(url: str, tmp_path: Path, shell: Shell) -> None:
    with pytest.raises(UsageError, match=r"--url"):
        relative.link(url, "r.html")
    run = runfiles.write(tmp_path / "r.json")
    for asked in (("report", run, "-o", tmp_path / "r.html"), ("site", run, "-o", tmp_path / "site")):
        ended = shell.dyno(*asked, "--url", url)
        assert ended.status == 2 and is_one_line(ended.err) and "https://example.org/bench/" in ended.err
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".json") == []
