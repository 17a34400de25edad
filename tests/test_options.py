"""Tests that flags, plan keys, keyword arguments and the header follow from the table of run options."""

from __future__ import annotations

from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click
import pytest

import dyno
from dyno.cli.run import request
from dyno.cli.run import run_command as command
from dyno.contracts.model import UsageError
from dyno.contracts.settings import SWITCH
from dyno.options import MOST_SECONDS, OPTIONS, Option, PlanOptions, RunRequest
from dyno.results import create, load
from dyno.runner import plan, plan_file

IN_CELLS = {"engines", "params", "preset", "tier", "clients", "rate", "phases", "load"}
"""Options that the plan resolves into cells and phases."""


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_option_is_flag_plan_key_and_keyword(option: Option) -> None:
    (flag,) = (each for each in command.params if each.name == option.name)
    assert isinstance(flag, click.Option) and option.flag in flag.opts and flag.help == option.help
    assert bool(flag.secondary_opts) == (option.kind is SWITCH)
    assert plan_file.KEYS[option.key] is option
    keyword = signature(dyno.run).parameters[option.name]
    assert keyword.kind is (Parameter.POSITIONAL_OR_KEYWORD if option.name == "engines" else Parameter.KEYWORD_ONLY)
    assert option.help and option.docs


def test_plan_has_every_option_not_in_cells() -> None:
    assert {option.name for option in OPTIONS} - IN_CELLS == {each.name for each in fields(PlanOptions)} - {"least"}


def flags(**given: Any) -> dict[str, Any]:
    return {option.name: None for option in OPTIONS} | {"params": (), **given}


WRITTEN = {
    "samples": (["--samples", "4"], "samples = 4", 4),
    "within": (["--within", "2m"], 'within = "2m"', 120.0),
    "memory": (["--memory", "512MiB"], 'memory = "512MiB"', 512 << 20),
    "awake": (["--awake"], "awake = true", True),
    "clients": (["--clients", "1,2"], 'clients = ["1", "2"]', ["1", "2"]),
    "limit": (["--limit", "p9<5ms", "-l", "errors<1%"], 'limit = ["p9<5ms", "errors<1%"]', ["p9<5ms", "errors<1%"]),
    "phases": (["--phases", "rand-key"], 'phases = ["rand-key"]', ["rand-key"]),
    "params": (["-p", "txn=1,10"], 'param = { txn = ["1", "10"] }', {"txn": ["1", "10"]}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_flag_and_plan_key_make_same_request(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, toml, value = WRITTEN[name]
    # The names of files in a plan file are relative to its directory.
    monkeypatch.chdir(tmp_path)
    file = Path("plan.toml")
    file.write_text(f'suite = "records"\n{toml}\n')
    given = command.make_context("run", ["records", *words]).params
    requested = request("records", {option.name: given[option.name] for option in OPTIONS})
    assert getattr(requested, name) == value
    assert plan_file.read(file) == requested
    # The file's value holds unless a flag overrides it.
    assert request(str(file), flags()) == requested


def test_a_single_value_may_stand_for_a_list() -> None:
    single = RunRequest("records", "sqlite", params={"txn": 1}, clients=2, rate="max", phases="rand-key")
    assert single == RunRequest(
        "records", ["sqlite"], params={"txn": [1]}, clients=[2], rate=["max"], phases=["rand-key"]
    )


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.least is not None], ids=lambda each: each.name)
def test_option_value_outside_range_is_refused(option: Option) -> None:
    assert option.least is not None
    option.check(option.least)
    for value in (option.least - 1, float("inf"), float("nan"), option.most + MOST_SECONDS):
        with pytest.raises(UsageError, match=rf"^{option.key}: expected "):
            option.check(value)


def test_run_file_header_has_requested_options(tmp_path: Path) -> None:
    run_plan = plan.make(
        RunRequest("records", "memory", samples=3, seed=7, duration=2.5, memory=1 << 30, retries=0, loop="python")
    )
    create(tmp_path / "r.json", {"plan": run_plan.data(), "host": {}}, run_plan.cells)
    header = load(tmp_path / "r.json").recorded["plan"]
    assert set(header) == {"suite", "phases", *(each.name for each in fields(PlanOptions))} - {
        "least",
        "limit",
        "confirm",
        "load_from",
        "plain_tcp",
        "profile",
    }
    assert (header["samples"], header["seed"], header["duration"]) == (3, 7, 2.5)
    assert (header["memory"], header["retries"], header["loop"]) == (1 << 30, 0, "python")
