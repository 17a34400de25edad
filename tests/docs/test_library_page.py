"""Tests that docs/reference/library.md documents the whole library, and that its script works."""

from __future__ import annotations

import sys
from dataclasses import fields

from pages import blocks, named, read, sections
from shell import Shell

import dyno


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_field_and_method_of_the_library_is_documented() -> None:
    page = sections(read("reference/library.md"))
    tables = {**named(page["A result"]), **named(page["Comparisons"])}
    rows = {field.name for kind in (dyno.Row, dyno.Comparison) for field in fields(kind)}
    documented = {name.partition("(")[0] for name in tables}
    assert rows | public(dyno.Result) == documented
    functions = {name.removeprefix("dyno.").partition("(")[0] for name in named(page["Functions"])}
    assert functions == {name for name in dyno.__all__ if name[0].islower()}


def test_the_librarys_script_runs_compares_and_plots(shell: Shell) -> None:
    (script,) = [block.text for block in blocks(read("reference/library.md")) if block.language == "python"]
    assert len(script.strip().splitlines()) <= 12
    ended = shell.sh(sys.executable, "-c", script)
    assert ended.status == 0, ended.err
    assert "rand-key: lmdb against sqlite" in ended.out
    assert "throughput_median" in ended.out
    assert (shell.home / "throughput.svg").read_text().startswith("<svg")
    assert list(shell.home.glob("records-*.json"))
