"""Tests completion by the Tab key: it offers names that fit the line so far. Tests call it as a shell does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shell import Shell

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("dyno re", {"report", "replicate"}, {"run"}),
        ("dyno run rec", {"records"}, {"series"}),
        ("dyno run records -e lmdb,sq", {"lmdb,sqlite"}, {"sqlite", "lmdb,lmdb"}),
        ("dyno run volume -e f", {"fio"}, {"ferretdb"}),
        ("dyno run -e fer", {"ferretdb"}, {"fio"}),
        ("dyno run records --phases scan,rand", {"scan,rand-key", "scan,rand-index"}, {"scan,update"}),
        ("dyno run records --preset s", {"standard"}, {"quick"}),
        ("dyno run records -p rec", {"records="}, {"txn="}),
        ("dyno run records --tier p", {"process", "power"}, {"volatile"}),
        ("dyno run records --sam", {"--samples"}, {"--seed"}),
        ("dyno install lm", {"lmdb"}, {"leveldb"}),
        ("dyno replicate acid", {"acid-2013"}, {"wendelin-2015"}),
        ("dyno run nothing --phases s", set(), {"scan"}),
    ],
)
def test_a_line_is_completed(shell: Shell, line: str, offered: set[str], not_offered: set[str]) -> None:
    environment = {"_DYNO_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    status, out, err = replace(shell, given=environment).dyno()
    matches = {word.partition(",")[2] for word in out.split()}
    assert (status, err) == (0, "")
    assert offered <= matches and not matches & not_offered


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion_script(shell: Shell, name: str) -> None:
    status, out, err = replace(shell, given={"_DYNO_COMPLETE": f"{name}_source"}).dyno()
    assert status == 0, err
    assert "_DYNO_COMPLETE" in out and "COMP_WORDS" in out
