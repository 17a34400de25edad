"""Tests the workflows and the release: pinned actions, few permissions, every supported Python, one version."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from documentation import ROOT

import dyno

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXAMPLE = ROOT / "examples" / "ci" / "dyno.yml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = re.compile(r"uses: ([\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$")


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())


def test_every_action_is_pinned_by_one_hash() -> None:
    pins: dict[str, set[tuple[str, str]]] = {}
    for path in (*OURS, EXAMPLE, ROOT / "action.yml"):
        for line in re.findall(r"uses: .+$", path.read_text(), re.MULTILINE):
            if line.startswith("uses: ./"):
                continue
            match = PINNED.match(line)
            assert match, f"{path.name}: {line}: pin it by the hash of a release, with the version as a comment"
            pins.setdefault(match[1], set()).add((match[2], match[3]))
    assert len(pins) > 5
    assert {name: hashes for name, hashes in pins.items() if len(hashes) > 1} == {}


@pytest.mark.parametrize("path", [*OURS, EXAMPLE], ids=lambda path: path.stem)
def test_workflow_permissions_are_minimal_and_jobs_time_limited(path: Path) -> None:
    whole = yaml.safe_load(path.read_text())
    assert whole["permissions"] == {"contents": "read"}
    for name, job in whole["jobs"].items():
        assert set(job.get("permissions", {})) <= {"id-token", "pages"}, name
        assert "uses" in job or job["timeout-minutes"] <= 120, name


def test_ci_covers_every_declared_python_and_both_processors() -> None:
    matrix = workflow("ci.yml")["jobs"]["check"]["strategy"]["matrix"]
    versions = {words[-1] for each in PROJECT["project"]["classifiers"] if "." in (words := each.split(" :: "))[-1]}
    assert set(matrix["python"]) == versions and len(versions) == 5
    assert {"arm" in runner for runner in matrix["runner"]} == {False, True}
    assert f">={matrix['python'][0]}" == PROJECT["project"]["requires-python"]


def test_gate_workflow_uses_inputs_and_outputs_of_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = workflow("gate.yml")["jobs"]["gate"]["steps"]
    (used,) = [step for step in steps if step.get("uses") == "./"]
    assert set(used["with"]) <= set(action["inputs"])
    assert (ROOT / used["with"]["plan"]).is_file()
    outputs = re.findall(r"steps\.dyno\.outputs\.(\w+)", (ROOT / ".github" / "workflows" / "gate.yml").read_text())
    assert set(outputs) == set(action["outputs"])


def test_only_the_publishing_job_gets_an_identity_token() -> None:
    jobs = workflow("release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi" and jobs["publish"]["needs"] == "build"
    assert jobs["build"]["needs"] == "verify"


@pytest.fixture
def release() -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_has_one_source(release: Any) -> None:
    assert release.version() == dyno.__version__
    assert "version" not in PROJECT["project"] and "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "dyno.__version__"}


@pytest.mark.parametrize(
    ("file", "text", "remedy"),
    [
        ("src/dyno/__init__.py", '__version__ = "1.2.4"\n', "tag v1.2.4"),
        ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n", "## 1.2.3 (YEAR-MONTH-DAY)"),
        ("pyproject.toml", "# [project.urls]\n", "state the repository's address"),
    ],
)
def test_tag_of_unready_release_is_refused(release: Any, tmp_path: Path, file: str, text: str, remedy: str) -> None:
    (tmp_path / "src" / "dyno").mkdir(parents=True)
    (tmp_path / "src" / "dyno" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-11-25)\n")
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nSource = "https://example.org"\n')
    assert release.problems("v1.2.3", tmp_path) == []
    (tmp_path / file).write_text(text)
    assert remedy in " ".join(release.problems("v1.2.3", tmp_path))
