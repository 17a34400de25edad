"""Guards the labels of rows: as requested, with the version if a run has several versions of an engine."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from madeup import a_cell, a_run, an_attempt, of_rates, written

from dyno import results
from dyno.cli import flag_values
from dyno.contracts.cell import Cell
from dyno.contracts.model import Caveat, Tier, UsageError
from dyno.report.charts import plot
from dyno.report.page import payload
from dyno.report.page.build import build
from dyno.results.run import set_labels
from dyno.stats.compare import check_baseline


def labels(tmp_path: Path, *rows: tuple[Cell, str]) -> list[str]:
    """Labels of a run file with these rows and versions, as read from disk."""
    measured = of_rates(*((cell, {"read": [1_000.0]}) for cell, _ in rows), phases=["read"])
    versions = [version for _, version in rows]
    run = replace(measured, attempts=tuple(replace(a, version=versions[a.cell]) for a in measured.attempts))
    found = results.load(written(run, tmp_path / "r.json"))
    assert found.cells == run.cells, "and a label is no part of what was asked for"
    return [cell.label for cell in found.cells]


def test_label_names_the_product_that_answered() -> None:
    cells = (a_cell("mysql"), a_cell("mariadb"), replace(a_cell("redis"), options={"client": "hiredis"}))
    answered = ("MariaDB 10.11.19 (PyMySQL 1.1)", "not-mysql"), ("MariaDB 10.11.19 (PyMySQL 1.1)", "first-page")
    caveats = (*answered, ("Valkey 9.1.0 (redis-py 7)", "not-redis"))
    attempts = [
        replace(an_attempt(), cell=at, version=version, caveats=(Caveat(code, "is another product"),))
        for at, (version, code) in enumerate(caveats)
    ]
    set_labels(cells, attempts)
    assert [cell.label for cell in cells] == [
        "MariaDB 10.11.19 (as mysql)",
        "mariadb",
        "Valkey 9.1.0 (as redis):client=hiredis",
    ]


def with_(**options: str) -> Cell:
    return Cell("records", "postgresql", options, Tier.PROCESS, {})


def test_labels_of_several_versions_contain_version_numbers(tmp_path: Path) -> None:
    new, old = "PostgreSQL 16.4 (psycopg 3.2.1, libpq 17.5)", "PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)"
    rows = (with_(), old), (with_(program="/opt/pg16/bin/postgres"), new)
    assert labels(tmp_path, *rows, (with_(set="jit=on"), old)) == [
        "postgresql 15.18",
        "postgresql 16.4",
        "postgresql 15.18:set.jit=on",
    ]


def test_labels_of_equal_versions_keep_program_paths(tmp_path: Path) -> None:
    same = "PostgreSQL 15.18 (psycopg 3.2.1, libpq 17.5)"
    rows = (with_(program="/a/postgres"), same), (with_(program="/b/postgres"), same)
    new = with_(program="/c/postgres"), "PostgreSQL 16.4 (psycopg 3.2.1, libpq 17.5)"
    assert labels(tmp_path, *rows, new) == [
        "postgresql 15.18:program=/a/postgres",
        "postgresql 15.18:program=/b/postgres",
        "postgresql 16.4",
    ]


def test_labels_of_one_version_omit_version_number(tmp_path: Path) -> None:
    rows = (with_(), "PostgreSQL 15.18 (psycopg 3)"), (with_(set="jit=on"), "PostgreSQL 15.18 (psycopg 3)")
    assert labels(tmp_path, *rows) == ["postgresql", "postgresql:set.jit=on"]


def test_unknown_version_is_not_in_label(tmp_path: Path) -> None:
    assert labels(tmp_path, (a_cell("lmdb"), "of unknown version (lmdb 1.0)"), (a_cell("sqlite"), "3.40.1")) == [
        "lmdb",
        "sqlite",
    ]


def test_a_baseline_may_be_named_by_its_label(tmp_path: Path) -> None:
    labels(tmp_path, (with_(), "PostgreSQL 15.18"), (with_(program="/a/postgres"), "PostgreSQL 16.4"))
    run = results.load(tmp_path / "r.json")
    assert check_baseline(run, "postgresql 16.4") == "postgresql:program=/a/postgres"
    assert check_baseline(run, "postgresql") == "postgresql"
    with pytest.raises(UsageError):
        check_baseline(run, "postgresql 17")


def test_page_and_chart_use_the_tables_row_labels(tmp_path: Path) -> None:
    path = "/opt/pg16/bin/postgres"
    labels(tmp_path, (with_(), "PostgreSQL 15.18"), (with_(program=path), "PostgreSQL 16.4"))
    run = results.load(tmp_path / "r.json")
    made = build([run])
    assert "postgresql 16.4" in made and "postgresql 15.18" in made
    # The program's path appears once, in the command that repeats the run.
    assert made.count(path) == 1
    for name in ("postgresql 16.4", f"postgresql:program={path}"):
        choice = plot.check(run, plot.Choice(engines=[name]))
        drawn = plot.draw_chart(run, plot.chart(run, "throughput"), choice).svg()
        assert "postgresql 16.4" in drawn and "postgresql 15.18" not in drawn


def at(url: str, engine: str = "postgresql", name: str | None = None) -> Cell:
    return replace(a_cell(engine), options={"url": url}, name=name)


def test_server_row_label_is_its_address_or_name(tmp_path: Path) -> None:
    urls = (
        "postgresql://user:***@db.example:5432/shop?sslmode=verify-full",
        "postgresql://[::1]/shop",
        "env:ADDRESS",
        "postgresql://user@one/a?x=1",
        "postgresql://user@one/a?x=2",
    )
    found = labels(tmp_path, *((at(url), "1") for url in urls), (at("postgresql://user@other/b", name="old"), "1"))
    assert found == [
        "postgresql at db.example:5432/shop",
        "postgresql at [::1]/shop",
        "postgresql:url=env:ADDRESS",
        # The same server twice: only the whole address tells the two apart.
        "postgresql:url=postgresql://user@one/a?x=1",
        "postgresql:url=postgresql://user@one/a?x=2",
        "old",
    ]


def test_page_command_keeps_commas_and_omits_empty_values() -> None:
    words = shlex.split(" ".join(payload.command(a_run(plan={"suite": "http"}, send="a,b", header="", depth=8))))
    given = [words[at + 1] for at, word in enumerate(words) if word == "-p"]
    assert flag_values.params(given) == {"send": ["a,b"], "depth": ["8"]}
