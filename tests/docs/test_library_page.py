"""Tests that the script in docs/reference/library.md works."""

from __future__ import annotations

import sys

from documentation import blocks, read
from shell import Shell


def test_library_example_runs_compares_and_plots(shell: Shell) -> None:
    (script,) = [block.text for block in blocks(read("reference/library.md")) if block.language == "python"]
    assert len(script.strip().splitlines()) <= 12
    ended = shell.sh(sys.executable, "-c", script)
    assert ended.status == 0, ended.err
    assert "rand-key: lmdb against sqlite" in ended.out
    assert "throughput_median" in ended.out
    assert (shell.home / "throughput.svg").read_text().startswith("<svg")
    assert list(shell.home.glob("records-*.json"))
