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


def test_uv_tool_is_given_again_what_it_was_given(prefix: Path) -> None:
    """uv removes additions that the command doesn't repeat."""
    (prefix / "pyvenv.cfg").write_text("uv = 0.9.5\n")
    (prefix / "uv-receipt.toml").write_text(RECEIPT)
    told = shlex.split(command(prefix, "lmdb>=1.4"))
    assert told == ["uv", "tool", "install", "--with", "polars>=1", "--with", "lmdb>=1.4", "/x/dyno.whl[embedded]"]


@pytest.mark.parametrize("text", ["", "[tool", "[tool]\nrequirements = 3", "[tool]\nrequirements = [3]"])
def test_a_receipt_that_can_not_be_read_hinders_nothing(prefix: Path, text: str) -> None:
    (prefix / "uv-receipt.toml").write_text(text)
    assert command(prefix, "lmdb") == "uv tool install --with lmdb dyno-bench"


@pytest.mark.parametrize(("suffix", "name"), [("", "dyno-bench"), ("-2", "dyno-bench-2")])
def test_pipx_injects_into_the_environment_of_that_name(prefix: Path, suffix: str, name: str) -> None:
    (prefix / "pyvenv.cfg").touch()
    (prefix / "pipx_metadata.json").write_text(
        json.dumps({"main_package": {"package": "dyno-bench", "suffix": suffix}})
    )
    assert command(prefix, "lmdb>=1.4") == f"pipx inject {name} 'lmdb>=1.4'"


def test_an_extra_is_named_by_what_it_stands_for_where_dyno_is_there_already(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").touch()
    told = command(prefix, "dyno-bench[parquet]")
    assert told.startswith("pipx inject dyno-bench ") and "pyarrow" in told and "dyno-bench[" not in told


def test_an_environment_has_its_own_pip(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert command(prefix, "lmdb") == f"{prefix}/bin/pip install lmdb"
    (prefix / "bin" / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", str(prefix / "bin"))
    assert command(prefix, "dyno-bench[http]") == "pip install 'dyno-bench[http]'", "which the shell finds"


def test_one_that_uv_made_without_pip_is_named_to_uv(prefix: Path) -> None:
    (prefix / "bin" / "pip").unlink()
    (prefix / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.5\n")
    assert command(prefix, "lmdb") == f"uv pip install --python {prefix} lmdb"


def test_where_the_distributor_forbids_pip_an_environment_is_made(prefix: Path) -> None:
    (prefix / "bin" / "pip").unlink()
    assert command(prefix, "lmdb") == "pip install lmdb"
    (prefix / "EXTERNALLY-MANAGED").touch()
    assert command(prefix, "lmdb") == "python3 -m venv ~/dyno && ~/dyno/bin/pip install dyno-bench lmdb"


def test_an_engine_of_packages_alone_is_got_by_that_command(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (prefix / "uv-receipt.toml").touch()
    monkeypatch.setattr("sys.prefix", str(prefix))

    def remedy(spec: EngineSpec) -> str:
        return spec.remedy

    assert remedy(engine("lmdb")).startswith("uv tool install --with 'lmdb")
    assert remedy(engine("redis")) == "dyno install redis", "which gets the server, too"
