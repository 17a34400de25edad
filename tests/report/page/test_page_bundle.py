"""Tests that the charting library is bundled once and cached, and that a damaged cache is replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dyno.report.page.parts import ENTRY, script


class Bundler(ModuleType):
    """Replaces vl-convert, whose bundling takes a second."""

    __version__ = "1.2.3"

    def __init__(self, text: str = "vega() // \N{DEGREE SIGN}") -> None:
        super().__init__("vl_convert")
        self.text = text
        self.asked = 0

    def javascript_bundle(self, snippet: str) -> str:
        assert snippet == ENTRY
        self.asked += 1
        return self.text


@pytest.fixture
def charts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dyno" / "charts"


def test_bundle_is_built_once_per_library_version(charts: Path) -> None:
    one, other = Bundler(), Bundler("other()")
    made = script(one)
    assert one.text in made
    assert (script(one), script(other)) == (made, made) and (one.asked, other.asked) == (1, 0)
    assert [file.name for file in charts.iterdir()] == ["vl-convert-1.2.3.js"]
    other.__version__ = "1.2.4"
    assert "other()" in script(other) and script(one) == made


@pytest.mark.parametrize(
    "damage", [lambda kept: kept[:-1], lambda kept: kept + b"x", lambda kept: b"", lambda _: b"\xff"]
)
def test_damaged_cached_bundle_is_rebuilt(charts: Path, damage: Callable[[bytes], bytes]) -> None:
    bundler = Bundler()
    made = script(bundler)
    (file,) = charts.iterdir()
    kept = file.read_bytes()
    file.write_bytes(damage(kept))
    assert script(bundler) == made and bundler.asked == 2
    assert file.read_bytes() == kept


def test_bundle_is_built_each_time_without_writable_cache(charts: Path) -> None:
    bundler = Bundler()
    charts.parent.parent.mkdir(exist_ok=True)
    charts.parent.write_text("no directory")
    assert script(bundler) == script(bundler) and bundler.asked == 2
    charts.parent.unlink()
    # If a directory has the file's name, no temporary file is left beside it.
    (charts / "vl-convert-1.2.3.js").mkdir(parents=True)
    assert bundler.text in script(bundler)
    assert [file.name for file in charts.iterdir()] == ["vl-convert-1.2.3.js"]
