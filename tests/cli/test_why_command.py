"""Tests `dyno why` as a shell runs it, on made-up runs, and on a real run with planted causes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from madeup import a_cell, a_sample, an_attempt, of_cells, written
from profiles import Counts, with_profiles
from shell import Shell, is_one_line

from dyno import results
from dyno.report.why_json import Why

pytestmark = pytest.mark.usefixtures("processes")

ITEMS = 10_000
BLOCKS = 6
LMDB = {"user_ns": 1_000, "system_ns": 100, "core_wait_ns": 10, "other": 50}
SQLITE = {**LMDB, "user_ns": 1_800, "system_ns": 1_500}


def a_run(path: Path, rows: Mapping[str, Mapping[str, float]], seed: int = 1) -> Path:
    random = np.random.default_rng(seed)
    attempts = []
    for at, parts in enumerate(rows.values()):
        for block in range(BLOCKS):
            ns = {
                name: round(of * ITEMS * float(np.exp(0.005 * random.standard_normal())))
                for name, of in parts.items()
            }
            elapsed_ns = sum(ns.values())
            client = {name: of for name, of in ns.items() if name != "other"}
            times = {"elapsed_ns": elapsed_ns, "busy_ns": elapsed_ns, "wall_ns": elapsed_ns}
            attempts.append(replace(an_attempt(block, a_sample("read", ITEMS, client=client, **times)), cell=at))
    return written(of_cells(*map(a_cell, rows), attempts=tuple(attempts), samples=BLOCKS), path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("why")
    a_run(home / "a.json", {"lmdb": LMDB, "sqlite": SQLITE})
    a_run(home / "b.json", {"lmdb": LMDB, "sqlite": {**SQLITE, "user_ns": 3_800}}, seed=2)
    return home


def test_accounts_and_reasons_are_printed(home: Path, shell: Shell) -> None:
    ended = shell.dyno("why", home / "a.json")
    assert ended.status == 0, ended.err
    words = " ".join(ended.out.split())
    assert "engine total user kernel waiting for a core other waiting" in words
    assert "sqlite takes 2." in words
    assert "more in system calls; " in words
    assert "more CPU time of its own. Ruled out: waiting for a core; waiting for something else." in words


def test_json_follows_its_declaration(home: Path, shell: Shell) -> None:
    for files in ([home / "a.json"], [home / "a.json", home / "b.json"]):
        data = json.loads(shell.dyno("why", *files, "--json").out)
        assert msgspec.to_builtins(msgspec.convert(data, Why)) == data
        assert [Path(name).name for name in data["runs"]] == [file.name for file in files]
    reasons: list[dict[str, Any]] = data["reasons"]
    assert {reason["engine"]: reason["named"] for reason in reasons} == {"lmdb": [], "sqlite": ["client_user"]}


def test_compare_adds_reasons_on_request(home: Path, shell: Shell) -> None:
    both = shell.dyno("compare", home / "a.json", home / "b.json", "--why")
    assert both.status == 0, both.err
    assert "read: sqlite takes" in " ".join(both.out.split())
    assert "other waiting" not in shell.dyno("compare", home / "a.json", home / "b.json").out


@pytest.mark.claim("A failed gate says why the row is slower")
def test_failed_gate_says_why(home: Path, shell: Shell) -> None:
    ended = shell.dyno("check", home / "b.json", "--against", home / "a.json")
    assert ended.status == 1
    words = " ".join(ended.out.split())
    assert "read: sqlite takes" in words
    assert "more CPU time of its own" in words
    assert "lmdb takes" not in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.json", "--baseline", "rocksdb"), "engine rocksdb"),
        (("a.json", "b.json", "--baseline", "lmdb"), "baseline is for engines within a run"),
        (("gone.json",), "gone.json"),
        (("a.json", "--margin", "much"), "--margin much"),
    ],
)
def test_bad_input_of_why_gets_one_line(home: Path, shell: Shell, words: tuple[str, ...], message: str) -> None:
    ended = shell.dyno("why", *(home / word if word.endswith(".json") else word for word in words))
    assert ended.status == 2
    assert is_one_line(ended.err)
    assert message in ended.err


def test_planted_causes_of_a_real_run_are_named(shell: Shell) -> None:
    causes = {"compute": "slower=2000", "calls": "calls=2000", "lock": "lock_us=3000"}
    engines = ",".join(["base=synthetic", *(f"{name}=synthetic:{option}" for name, option in causes.items())])
    small = ("-p", "operations=300", "--samples", "4")
    assert shell.dyno("run", "selftest", "-e", engines, *small, "-o", shell.file).status == 0
    data = json.loads(shell.dyno("why", shell.file, "--baseline", "base", "--json").out)
    named = {reason["label"]: set(reason["named"]) for reason in data["reasons"]}
    # On a busy machine, what waits for a lock then waits for a core, too.
    assert "other_wait" in named["lock"]
    assert "client_user" in named["compute"]
    assert named["calls"] & {"client_user", "client_kernel", "client_cpu"}


def test_profiles_of_two_runs_are_compared(tmp_path: Path, shell: Shell) -> None:
    profiles: dict[str, Counts] = {
        "a.json": {"lib`get": 60, "libc`read": 40},
        "b.json": {"lib`get": 30, "libc`read": 42, "zlib`crc": 28},
    }
    for seed, (name, counts) in enumerate(profiles.items()):
        run = results.load(a_run(tmp_path / f"plain-{name}", {"lmdb": LMDB}, seed))
        written(with_profiles(run, "read", [counts]), tmp_path / name)
    words = " ".join(shell.dyno("why", tmp_path / "a.json", tmp_path / "b.json").out.split())
    assert "profile of read tier process, before → after" in words
    assert "lmdb 60 → 30 % lib, 0 → 28 % zlib, 40 → 42 % libc" in words
    assert "60 → 30 % get (lib), 0 → 28 % crc (zlib)" in words
    assert "before → after" not in shell.dyno("why", tmp_path / "b.json").out
