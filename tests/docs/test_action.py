"""Tests the composite action: its scripts are valid shell, use the declared inputs, and end like the gate."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from documentation import ROOT
from madeup import reads, written
from shell import Shell

from dyno import results

pytestmark = pytest.mark.usefixtures("processes")

ACTION = (ROOT / "action.yml").read_text()
RATES = [1000.0, 1010.0, 990.0, 1004.0]


def scripts() -> list[str]:
    matches = re.findall(r"^      run: \|\n((?:        .*\n|\n)*)", ACTION, re.MULTILINE)
    return [textwrap.dedent(script) for script in matches]


def test_scripts_of_the_action_are_valid_shell() -> None:
    assert len(scripts()) == 2
    for script in scripts():
        done = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_inputs_of_the_action_are_declared_and_used() -> None:
    declared = set(re.findall(r"^  (\w+):$", ACTION[: ACTION.index("\noutputs:")], re.MULTILINE))
    assert declared == set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", ACTION)) and len(declared) > 8
    # Inputs reach scripts only by the environment: text from a pull request would otherwise be executed.
    assert not any("${{" in script for script in scripts())
    page = (ROOT / "docs" / "reference" / "ci.md").read_text()
    inputs = page[page.index("Its inputs:") : page.index("Its outputs")]
    assert set(re.findall(r"`(\w+)`", inputs)) == declared


PLAN = """suite = "records"
engine = ["sqlite"]
phases = ["rand-key"]
samples = 2
budget = 0.1

[param]
records = 100
"""
PYTHON = f"""#!/bin/sh
# Environments are made elsewhere in the tests: these have this one's Dyno and a pip, which note what they are given.
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "$(pwd): $*" >> "$NOTED"\\n' > "$3/bin/pip"
printf '#!/bin/sh\\necho "dyno $*" >> "$NOTED"\\nexec {sys.executable} -m dyno "$@"\\n' > "$3/bin/dyno"
chmod +x "$3/bin/pip" "$3/bin/dyno"
"""


@pytest.fixture
def measuring(shell: Shell, tmp_path: Path) -> Shell:
    """The environment of the action's first script: a checkout of two commits with a plan, and the inputs."""
    (tmp_path / "repo" / "bench").mkdir(parents=True)
    (tmp_path / "repo" / "bench" / "plan.toml").write_text(PLAN)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    git = ["git", "-C", str(tmp_path / "repo"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["commit", "-qm", "two", "--allow-empty"]):
        subprocess.run([*git, *words], check=True)
    environment = {
        "DYNO": "dyno-bench[report]",
        "HEAD": "repo",
        "BASE": "HEAD^1",
        "INSTALL": "-r a.txt",
        "ROUNDS": "1",
    }
    environment |= {"PLAN": "bench/plan.toml", "PYTHON": str(tmp_path / "python"), "TMPDIR": str(tmp_path)}
    environment |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "NOTED": str(tmp_path / "noted")}
    shell.given, shell.home = environment, tmp_path
    return shell


def test_action_measures_both_commits_in_turns(measuring: Shell, tmp_path: Path) -> None:
    ended = measuring.sh("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[0])
    assert ended.status == 0, ended.err
    place = Path((tmp_path / "output").read_text().strip().removeprefix("place="))
    base, head = (results.load(place / f"{side}.json") for side in ("base", "head"))
    assert base.complete and head.complete
    noted = (tmp_path / "noted").read_text()
    assert re.findall(r"^dyno run .* -o \S*/(\w+)\.json", noted, re.MULTILINE) == ["base", "head", "head", "base"]
    assert noted.count("install --quiet dyno-bench[report]") == 2
    assert all(f"{place}/{side}: install --quiet -r a.txt" in noted for side in ("base", "head"))


def test_action_refuses_two_sides_running_the_same_code(measuring: Shell, tmp_path: Path) -> None:
    bench = tmp_path / "repo" / "bench"
    (bench / "code.py").write_text("def work(): return 3\n")
    (bench / "plan.toml").write_text('suite = "calls"\nengine = ["code.py:work"]\nsamples = 2\nbudget = 0.02\n')
    # Each side has an environment of its own, but the code is the head's.
    paths = "\n".join(path for path in sys.path if path)
    (tmp_path / "python").write_text(f"""#!/bin/sh
{sys.executable} -m venv --without-pip "$3"
echo '{paths}' > "$(echo "$3"/lib/python*/site-packages)/dyno.pth"
printf '#!/bin/sh\\nexec %s -m dyno "$@"\\n' "$3/bin/python" > "$3/bin/dyno"
printf '#!/bin/sh\\n' > "$3/bin/pip"
chmod +x "$3/bin/pip" "$3/bin/dyno"
""")
    ended = measuring.sh("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[0])
    assert ended.status != 0 and "ran the same code" in ended.err, ended
    place = Path((tmp_path / "output").read_text().strip().removeprefix("place="))
    assert {each.block for side in ("base", "head") for each in results.load(place / f"{side}.json").attempts} == {0}


def test_missing_base_commit_is_reported_as_error(measuring: Shell) -> None:
    measuring.given["BASE"] = "HEAD^1^1"
    ended = measuring.sh("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", scripts()[0])
    assert ended.status == 1 and "::error::there is no commit HEAD^1^1 in repo" in ended.out


@pytest.mark.parametrize(("slower", "status"), [(4.0, 1), (1.0, 0)])
def test_action_exits_with_the_gate_status(shell: Shell, tmp_path: Path, slower: float, status: int) -> None:
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
