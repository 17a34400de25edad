"""Tests that the suggested install command fits the way Dyno was installed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from dyno.contracts.engine import EngineSpec
from dyno.host import installation
from dyno.registry import engine

RECEIPT = """[tool]
requirements = [
    { name = "dyno-bench", extras = ["embedded"], path = "/x/dyno.whl" },
    { name = "polars", specifier = ">=1" },
]
entrypoints = [{ name = "dyno", install-path = "/home/me/.local/bin/dyno", from = "dyno-bench" }]
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Environment with a pip that is not on the PATH."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "pip").touch()
    return tmp_path / "env"


def command(prefix: Path, *requirements: str) -> str:
    return installation.command(requirements, prefix, prefix)


def test_uv_tool_command_repeats_earlier_requirements(prefix: Path) -> None:
    """uv removes additions that the command doesn't repeat."""
    (prefix / "pyvenv.cfg").write_text("uv = 0.9.5\n")
    (prefix / "uv-receipt.toml").write_text(RECEIPT)
    told = shlex.split(command(prefix, "lmdb>=1.4"))
    assert told == ["uv", "tool", "install", "--with", "polars>=1", "--with", "lmdb>=1.4", "/x/dyno.whl[embedded]"]


@pytest.mark.parametrize("text", ["", "[tool", "[tool]\nrequirements = 3", "[tool]\nrequirements = [3]"])
def test_unreadable_uv_receipt_is_ignored(prefix: Path, text: str) -> None:
    (prefix / "uv-receipt.toml").write_text(text)
    assert command(prefix, "lmdb") == "uv tool install --with lmdb dyno-bench"


@pytest.mark.parametrize(("suffix", "name"), [("", "dyno-bench"), ("-2", "dyno-bench-2")])
def test_pipx_command_names_its_environment(prefix: Path, suffix: str, name: str) -> None:
    (prefix / "pyvenv.cfg").touch()
    (prefix / "pipx_metadata.json").write_text(
        json.dumps({"main_package": {"package": "dyno-bench", "suffix": suffix}})
    )
    assert command(prefix, "lmdb>=1.4") == f"pipx inject {name} 'lmdb>=1.4'"


def test_pipx_command_expands_extra_of_installed_dyno(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").touch()
    told = command(prefix, "dyno-bench[parquet]")
    assert told.startswith("pipx inject dyno-bench ") and "pyarrow" in told and "dyno-bench[" not in told


def test_virtual_environment_command_uses_its_own_pip(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert command(prefix, "lmdb") == f"{prefix}/bin/pip install lmdb"
    (prefix / "bin" / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", str(prefix / "bin"))
    assert command(prefix, "dyno-bench[http]") == "pip install 'dyno-bench[http]'", "which the shell finds"


def test_uv_environment_without_pip_uses_uv_pip(prefix: Path) -> None:
    (prefix / "bin" / "pip").unlink()
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.5\n")
    assert command(prefix, "lmdb") == f"uv pip install --python {prefix} lmdb"


def test_externally_managed_python_suggests_a_virtual_environment(prefix: Path) -> None:
    (prefix / "bin" / "pip").unlink()
    assert command(prefix, "lmdb") == "pip install lmdb"
    (prefix / "EXTERNALLY-MANAGED").touch()
    assert command(prefix, "lmdb") == "python3 -m venv ~/dyno && ~/dyno/bin/pip install dyno-bench lmdb"


def test_remedy_is_package_command_unless_server_is_needed(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix / "uv-receipt.toml").touch()
    monkeypatch.setattr("sys.prefix", str(prefix))

    def remedy(spec: EngineSpec) -> str:
        return spec.remedy

    assert remedy(engine("lmdb")).startswith("uv tool install --with 'lmdb")
    assert remedy(engine("redis")) == "dyno install redis", "which gets the server, too"
