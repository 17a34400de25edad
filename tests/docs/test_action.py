"""The composite action: its scripts are shell, use what it declares, and end as the gate does."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pages import ROOT
from shell import Shell
from stats.madeup import reads, written

ACTION = (ROOT / "action.yml").read_text()
RATES = [1000.0, 1010.0, 990.0, 1004.0]


def scripts() -> list[str]:
    found = re.findall(r"^      run: \|\n((?:        .*\n|\n)*)", ACTION, re.MULTILINE)
    return [textwrap.dedent(script) for script in found]


def test_its_scripts_are_shell() -> None:
    assert len(scripts()) == 2
    for script in scripts():
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_every_input_is_used_and_declared() -> None:
    declared = set(re.findall(r"^  (\w+):$", ACTION[: ACTION.index("\noutputs:")], re.MULTILINE))
    assert declared == set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", ACTION)) and len(declared) > 8
    # Not put into a script, where a text of a pull request would be run.
    assert not any("${{" in script for script in scripts())
    page = (ROOT / "docs" / "ci.md").read_text()
    told = page[page.index("Its inputs:") : page.index("Its outputs")]
    assert set(re.findall(r"`(\w+)`", told)) == declared


@pytest.mark.parametrize(("slower", "status"), [(4.0, 1), (1.0, 0)])
def test_it_ends_as_the_gate_does(shell: Shell, tmp_path: Path, slower: float, status: int) -> None:
    place = tmp_path / "place"
    (place / "venv-head" / "bin").mkdir(parents=True)
    command = place / "venv-head" / "bin" / "dyno"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m dyno "$@"\n')
    command.chmod(0o755)
    written(reads(lmdb=RATES), place / "base.json")
    written(reads(lmdb=[rate / slower for rate in RATES]), place / "head.json")
    summary = tmp_path / "summary.md"
    shell.given = {"PLACE": str(place), "MARGIN": "10%", "METRIC": "", "STRICT": "false"}
    shell.given["GITHUB_STEP_SUMMARY"] = str(summary)
    assert shell.sh("bash", "-e", "-o", "pipefail", "-c", scripts()[1]).status == status
    assert "rows slower by more than 10 %" in summary.read_text()
    assert (place / "gate.xml").exists() and (place / "report.html").exists()
