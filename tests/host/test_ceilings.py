"""Tests the machine's ceilings: they are probed, cached for each file system, and part of every report, with the
share that a row reaches."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import a_cell, changed, of_rates
from rich.console import Console
from shell import Shell

from dyno.contracts.model import Tier
from dyno.fields import Sample
from dyno.host import ceilings
from dyno.report.page.build import build
from dyno.report.tables import notes, sections
from dyno.report.tables.text import as_markdown
from dyno.results import Run
from dyno.stats.machine import shares

pytestmark = pytest.mark.usefixtures("processes")

MOST = {
    "flushes_per_second": 1_000.0,
    "memory_bytes_per_second": 10**10,
    "core_bytes_per_second": 10**10,
    "core_events_per_second": 400.0,
    "probed": "2026-01-02",
}


@pytest.mark.claim("A row's share of the machine's ceilings is shown only if they were probed on its file system")
def test_probed_ceilings_are_cached_per_file_system(tmp_path: Path) -> None:
    probed: dict[str, Any] = ceilings.probe(tmp_path, 0.04)
    assert set(probed) == set(ceilings.NAMES)
    assert all(value is None or value == probed["probed"] or value > 0 for value in probed.values())
    assert ceilings.load_cached(tmp_path / "cache", tmp_path) is None
    ceilings.keep(tmp_path / "cache", tmp_path, probed)
    assert ceilings.load_cached(tmp_path / "cache", tmp_path) == probed
    assert ceilings.load_cached(tmp_path / "cache", Path("/proc")) is None, "another file system"
    assert not list(tmp_path.glob(".dyno-probe-*"))


@pytest.mark.parametrize("kept", ["", "[]", "{", '{"flushes_per_second": "many"}', '{"flushes_per_second": -1}'])
def test_malformed_cached_ceilings_are_ignored(kept: str, tmp_path: Path) -> None:
    ceilings.keep(tmp_path / "cache", tmp_path, dict(MOST))
    (file,) = (tmp_path / "cache/ceilings").iterdir()
    file.write_text(kept)
    assert ceilings.load_cached(tmp_path / "cache", tmp_path) is None


# -- shares -------------------------------------------------------------------------------------------------------


def run(**host: Any) -> Run:
    """Returns a run of an engine at tier power with 250 operations and 0.5 s of CPU time a second."""
    cell = replace(a_cell("lmdb"), tier=Tier.POWER)
    found = of_rates((cell, {"write": [250, 250, 250]}), phases=["write"])

    def used(_: str, sample: Sample) -> Sample:
        ns = sample.elapsed_ns
        return replace(sample, client={"user_ns": ns // 4, "system_ns": ns // 4}, server=None, bulk=False)

    found = changed(found, used)
    told = {"phases": [{"name": "write", "writes": True}], "host": {**found.recorded["host"], **host}}
    return replace(found, recorded={**found.recorded, **told})


@pytest.mark.claim("A row's share of the machine's ceilings is shown only if they were probed on its file system")
def test_row_has_shares_of_flushes_and_one_core() -> None:
    (share,) = shares(run(ceilings=MOST))
    assert share.flushes == pytest.approx(0.25, rel=0.01)
    assert share.cores == pytest.approx(0.5, rel=0.01) and share.memory is None


def test_page_shows_shares_only_if_probed(tmp_path: Path) -> None:
    shown = [replace(run(**host), path=tmp_path / "r.json") for host in ({"ceilings": MOST}, {})]
    for found in shown:
        found.path.write_text("")
    told, silent = (build([found]) for found in shown)
    assert "lmdb, write, tier power: 25% of the flushes, 50% of one core" in told
    assert "own ceilings" not in silent


@pytest.mark.parametrize("host", [{}, {"ceilings": None}])
def test_unprobed_run_shows_no_ceilings(host: dict[str, Any]) -> None:
    found, out = run(**host), io.StringIO()
    sections.render(notes.ceiling_sections(found), Console(file=out, width=200))
    assert shares(found) == [] and out.getvalue() == "" and "probed" not in notes.machine(found)


def test_tier_process_has_memory_but_no_flush_share() -> None:
    """At tier process commits don't wait for flushes, so only the share of the memory bandwidth is known."""
    found = run(ceilings=MOST)
    cells = [replace(cell, tier=Tier.PROCESS) for cell in found.cells]
    moving = changed(
        replace(found, cells=tuple(cells)), lambda _, sample: replace(sample, bytes=5 * sample.elapsed_ns)
    )
    (share,) = shares(moving)
    assert share.flushes is None and share.memory == pytest.approx(0.5, rel=0.01)


def test_every_report_shows_the_ceilings() -> None:
    found, out = run(ceilings=MOST), io.StringIO()
    told = "at most 1,000 flushes/s, 10.0 GB/s of memory, 400 prime searches/s on a core (probed 2026-01-02)"
    assert told in notes.machine(found) and told in " ".join(as_markdown(found).split()).replace("\xa0", " ")
    sections.render(notes.ceiling_sections(found), Console(file=out, width=200))
    assert "50% of one core" in out.getvalue()


def test_doctor_and_runs_show_cached_ceilings(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test writes figures to the cache itself, since a probe takes 20 seconds."""
    shell.given["XDG_CACHE_HOME"] = str(tmp_path)
    shell.work.mkdir(exist_ok=True)
    told = json.loads(shell.dyno("doctor", "--json", "--work", shell.work).out)
    assert told["facts"]["ceilings"] is None
    ceilings.keep(tmp_path / "dyno", shell.work, dict(MOST))
    told = json.loads(shell.dyno("doctor", "--json", "--work", shell.work).out)
    assert told["facts"]["ceilings"] == MOST
    words = ("-p", "operations=100", "--samples", 1, "-o", shell.file, "--all")
    ended = shell.dyno("run", "selftest", "-e", "synthetic", *words)
    assert ended.status == 0, ended
    assert json.loads(shell.file.read_text().splitlines()[0])["host"]["ceilings"] == MOST
    assert "at most 1,000 flushes/s" in ended.out and "of one core" in ended.out
