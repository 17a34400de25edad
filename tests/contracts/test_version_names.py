"""Tests the names of versions: which versions a text names, in which order, and which texts are refused."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dyno import registry
from dyno.contracts import versions
from dyno.contracts.model import UsageError
from dyno.contracts.programs import GoModule, Jars, Program

KNOWN = (
    *(
        "0.9.2",
        "0.10.3",
        "1.0.0",
        "1.1.0",
        "1.1.3",
        "1.4.0",
        "1.4.10",
        "1.4.9",
        "2.0.0rc1",
        "2.0.0",
        "2.0.1",
        "2.1.0.dev3",
    ),
)
POSTGRESQL = ("9.6.24", "10.23.0", "12.22.0", "14.20.0", "17.2.0", "18.0.0")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1.1.0", ["1.1.0"]),
        ("2.0.0rc1", ["2.0.0rc1"]),
        ("1.1", ["1.1.3"]),
        ("1.4", ["1.4.10"]),
        ("2", ["2.0.1"]),
        ("1.5", []),
        ("1.0..1.4", ["1.0.0", "1.1.3", "1.4.10"]),
        ("0.9..1.0", ["0.9.2", "0.10.3", "1.0.0"]),
        ("1.4.9..1.4.10", ["1.4.9", "1.4.10"]),
        ("1..2", ["1.0.0", "1.1.3", "1.4.10", "2.0.1"]),
        ("all", ["0.9.2", "0.10.3", "1.0.0", "1.1.3", "1.4.10", "2.0.1"]),
    ],
)
def test_text_names_versions(text: str, named: list[str]) -> None:
    assert versions.choose("duckdb", text, KNOWN, 2) == named


def test_release_line_may_be_one_number() -> None:
    assert versions.choose("postgresql", "12..17", POSTGRESQL, 1) == ["12.22.0", "14.20.0", "17.2.0"]
    assert versions.choose("postgresql", "9.6", POSTGRESQL, 1) == ["9.6.24"]
    assert versions.choose("postgresql", "9.6..12", (*POSTGRESQL, "10.1.0"), 1) == ["9.6.24", "10.23.0", "12.22.0"]


@pytest.mark.parametrize("text", ["", "latest", "1.0..", "..2.0", "1.0..x"])
def test_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a version, such as"):
        versions.choose("duckdb", text, KNOWN, 2)


def test_reversed_range_is_refused_with_the_right_one() -> None:
    with pytest.raises(UsageError, match=r"the first version is later than the last: 1\.1\.\.2\.0"):
        versions.choose("duckdb", "2.0..1.1", KNOWN, 2)


def test_versions_are_sorted_by_release() -> None:
    ordered = versions.sort_versions(KNOWN)
    assert ordered[:2] == ["0.9.2", "0.10.3"]
    assert all(versions.release(one) <= versions.release(other) for one, other in pairwise(ordered))


def test_every_source_is_of_a_known_kind() -> None:
    declared = {spec.name: spec.versions for spec in registry.engines() if spec.versions is not None}
    assert {"duckdb", "lmdb", "rocksdb", "sqlite", "numpy"} <= declared.keys()
    for name, each in declared.items():
        assert each.line >= 1 and each.sources, name
        assert all(isinstance(source, versions.Source) for source in each.sources), name


def test_built_program_changes_its_version_everywhere() -> None:
    module = GoModule("host/tool", "v1.2.0", "h1:x", files={"version.txt": "v1.2.0", "other.txt": "unknown"})
    other = Program("tool", "1.2.0", module).change_version("1.1.0")
    assert isinstance(other.source, GoModule)
    assert (other.version, other.source.version, other.source.sum) == ("1.1.0", "v1.1.0", "")
    assert other.source.files == {"version.txt": "v1.1.0", "other.txt": "unknown"}
    jars = Jars(("group:server:5.0.9-hadoop", "-group:client:5.0.9", "group:other:1.0"), "0" * 64)
    changed = Program("server", "5.0.9", jars).change_version("5.0.8").source
    assert changed == Jars(("group:server:5.0.8-hadoop", "-group:client:5.0.8", "group:other:1.0"), "")
