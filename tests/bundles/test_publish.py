"""Publishes a run like a user, and repeats it in another directory, as somebody else would."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from needed import require
from shell import DATA, Shell, small

from dyno import registry
from dyno.bundles import container

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def other(tmp_path: Path, place: Path, processes: None) -> Shell:
    home = tmp_path / "other"
    home.mkdir()
    return Shell(home, place / "other-work")


@pytest.mark.claim("A published run is repeated elsewhere by one command, and the verdicts are compared")
def test_a_run_is_published_and_repeated(shell: Shell, other: Shell) -> None:
    for name in ("lmdb", "sqlite"):
        require(registry.engine(name))
    plan = small(samples=1, phases="rand-key,update")
    assert shell.dyno("run", "records", "-e", "lmdb,slow=sqlite:cache_mib=1", *plan, "-o", shell.file).status == 0
    assert shell.dyno("publish", shell.file).status == 0
    made = shell.file.with_suffix(".dyno")
    again = shell.dyno("publish", shell.file)
    assert again.status == 2 and "--overwrite" in again.err
    shutil.copy(made, other.home / "theirs.dyno")
    # Earlier versions signed bundles. Such a file beside a bundle is ignored.
    (other.home / "theirs.dyno.sig").write_text("a signature of something else")
    asked = other.dyno("replicate", "theirs.dyno")
    assert asked.status == 2 and "--trust" in asked.err
    assert sorted(path.name for path in other.home.iterdir()) == ["theirs.dyno", "theirs.dyno.sig"]
    ended = other.dyno("replicate", "theirs.dyno", "--trust", "-o", other.file)
    assert ended.status == 0, ended
    assert 'suite = "records"' in ended.out
    for word in ("published", "here", "slow", "rand-key", "update"):
        assert word in ended.out
    ours, theirs = shell.shown(), other.shown()
    # Rows are ordered by their figures, which differ.
    assert {(cell["engine"], cell["phase"]) for cell in ours["cells"]} == {
        (cell["engine"], cell["phase"]) for cell in theirs["cells"]
    }


DEFINITION = """
suite = "sql"
engine = ["sqlite"]
samples = 1
budget = 0.05

[sql]
schema = "CREATE TABLE items (id INTEGER, price INTEGER)"

[sql.tables]
items = "items.csv"

[sql.transactions.sum]
script = '''
\\set least random(1, 9)
SELECT sum(price) FROM items WHERE price >= :least
'''

[sql.variants.indexed]
after = "CREATE INDEX by_price ON items (price)"
"""


def test_published_sql_includes_data_and_needs_trust(shell: Shell, other: Shell) -> None:
    (shell.home / "items.csv").write_text("id,price\n" + "".join(f"{at},{at * 7 % 13}\n" for at in range(100)))
    (shell.home / "plan.toml").write_text(DEFINITION)
    ended = shell.dyno("run", "plan.toml", "-o", shell.file)
    assert ended.status == 0, ended
    assert shell.dyno("publish", shell.file, "-o", "shared.dyno").status == 0
    shell.file.write_text("".join(shell.file.read_text().splitlines(keepends=True)[:2]))
    ended = shell.dyno("run", "plan.toml", "-o", shell.file, "--resume")
    assert ended.status == 0, ended
    shutil.move(shell.home / "shared.dyno", other.home / "shared.dyno")
    refused = other.dyno("replicate", "shared.dyno")
    assert refused.status == 2 and "scripts" in refused.err and "--trust" in refused.err
    ended = other.dyno("replicate", "shared.dyno", "--trust", "-o", other.file)
    assert ended.status == 0, ended
    assert "same answers" in ended.out and "SELECT sum(price)" in ended.out
    assert re.search(r"sqlite:variant=indexed +sum +yes", ended.out)
    # Its data files are elsewhere each time that it is opened.
    whole = other.file.read_text().splitlines(keepends=True)
    other.file.write_text("".join(whole[:2]))
    ended = other.dyno("replicate", "shared.dyno", "--trust", "-o", other.file, "--resume")
    assert ended.status == 0, ended
    assert len(other.file.read_text().splitlines()) == len(whole)


@pytest.mark.parametrize(
    ("suite", "engine", "named"),
    [
        ("records", 'postgresql:set.archive_command="touch x"', "set.archive_command"),
        ("records", "redis:program=/bin/true", "program"),
    ],
)
def test_plan_that_sets_machine_programs_needs_trust(shell: Shell, suite: str, engine: str, named: str) -> None:
    shutil.copy(DATA / "run-schema-3.json", shell.file)
    assert shell.dyno("publish", shell.file).status == 0
    made = shell.file.with_suffix(".dyno")
    with zipfile.ZipFile(made) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != container.MANIFEST}
    name, _, option = engine.partition(":")
    key, _, value = option.partition("=")
    entry = f"{{name = {json.dumps(name)}, {json.dumps(key)} = {json.dumps(value)}}}"
    plan = f"suite = {json.dumps(suite)}\nengine = [{entry}]\n"
    content = {"run.json": (container.RUN, members["run.json"]), "plan.toml": (container.PLAN, plan.encode())}
    made.write_bytes(container.pack_members(content, []))
    refused = shell.dyno("replicate", made)
    assert refused.status == 2 and named in refused.err and "--trust" in refused.err
