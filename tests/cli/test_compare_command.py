"""Tests `dyno compare` as a shell runs it: it compares engines within a run, runs with the first, or the halves of
one run, and refuses other input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from madeup import Rates, a_cell, changed, of_rates, reads, versions, written
from shell import Shell, is_one_line

from dyno.contracts.cell import Cell
from dyno.contracts.model import Fact, Tier
from dyno.fields import Sample

pytestmark = pytest.mark.usefixtures("processes")

QUIET = (1.0, 1.01, 0.99, 1.002, 0.998, 1.001)


def around(rate: float) -> list[float]:
    return [1e6 * rate * value for value in QUIET]


def used(server_ns: int) -> Callable[[str, Sample], Sample]:
    """Returns a change of samples: an item costs the client 28.4 µs of CPU time, and sqlite's server `server_ns`."""

    def change(engine: str, sample: Sample) -> Sample:
        client = {"user_ns": 28_000 * sample.items, "system_ns": 400 * sample.items}
        server = {"user_ns": server_ns * sample.items, "system_ns": 0} if engine == "sqlite" else None
        return replace(sample, client=client, server=server)

    return change


def with_memory(mib: Mapping[str, int]) -> Callable[[str, Sample], Sample]:
    """Returns a change of samples: engines have this peak memory."""
    return lambda engine, sample: replace(sample, client_peak_bytes=mib[engine] << 20)


def releases(engine: str, *rates: float) -> list[tuple[Cell, Mapping[str, Rates]]]:
    """Versions 1.8, 1.9, ... of an engine with these rates."""
    return versions({f"1.{8 + at}": around(rate) for at, rate in enumerate(rates)}, engine)


def answered(otherwise: bool) -> Callable[[Sample], Sample]:
    """Returns a change of samples: all answers are equal, or differ from the usual ones."""
    facts: dict[str, Fact] = {
        "answers_book": "b",
        "answers_group": int(otherwise),
        "answers_differ": "row 3" if otherwise else "",
    }
    return lambda sample: replace(sample, facts=facts)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with made-up run files of known figures."""
    home = tmp_path_factory.mktemp("compare")
    host = {"system": {"kernel": "6.1"}, "cpu": {"model": "AMD EPYC"}, "load": {"minutes_1": 0.5}}
    rows = [(a_cell(name), {"read": around(rate)}) for name, rate in (("sqlite", 1), ("lmdb", 1.5), ("memory", 3.35))]
    null = a_cell("null", floor=True), {"read": around(100)}
    written(of_rates(*rows, null, phases=["read"], host=host, created="2026-01-01T10:00:00+00:00"), home / "a.json")
    other = [
        (a_cell("sqlite"), {"read": around(2)}),
        (a_cell("lmdb"), {"read": around(1.5)}),
        (a_cell("duckdb"), {"read": around(1)}),
    ]
    host = {"system": {"kernel": "6.6"}, "cpu": {"model": "AMD EPYC"}, "load": {"minutes_1": 9.5}}
    written(of_rates(*other, phases=["read"], host=host), home / "b.json")
    third = [(a_cell("sqlite"), {"read": around(0.5)}), (a_cell("memory"), {"read": around(3.35)})]
    written(of_rates(*third, phases=["read"], host=host), home / "c.json")
    written(reads(sqlite=around(1)), home / "alone.json")
    written(reads(duckdb=around(1)), home / "other.json")
    written(reads(sqlite=(100,) * 2, lmdb=(200,) * 2), home / "few.json")
    tiers = (a_cell("sqlite"), {"read": around(1)}), (a_cell("lmdb", tier=Tier.POWER), {"read": around(1)})
    written(of_rates(*tiers, phases=["read"]), home / "tiers.json")
    for name, served in (("served-a", 6_000), ("served-b", 5_000)):
        written(changed(reads(lmdb=around(1), sqlite=around(1)), used(served)), home / f"{name}.json")
    for name, mib in (("lean", {"sqlite": 100, "lmdb": 150}), ("fat", {"sqlite": 205, "lmdb": 149})):
        written(changed(reads(lmdb=around(1), sqlite=around(1)), with_memory(mib)), home / f"{name}.json")
    written(of_rates(*releases("duckdb", 1, 1, 1, 0.7, 1), phases=["read"]), home / "versions.json")
    answers = of_rates(*releases("duckdb", 1, 1), *releases("lmdb", 1, 1), phases=["read"])
    attempts = [
        replace(each, samples=tuple(map(answered(each.cell == 1), each.samples))) for each in answers.attempts
    ]
    written(replace(answers, attempts=tuple(attempts)), home / "answers.json")
    suite = reads(sqlite=around(1))
    suite.recorded["plan"]["suite"] = "arrays"
    written(suite, home / "arrays.json")
    (home / "not.json").write_text("[]\n")
    return home


@pytest.fixture
def compare(shell: Shell, home: Path) -> Any:
    shell.home = home
    return lambda *words: shell.dyno("compare", *words)


def lines(text: str) -> list[str]:
    """Returns the lines of the output with single spaces."""
    return [re.sub(r" {2,}", " ", line).strip() for line in text.splitlines()]


# -- within a run ---------------------------------------------------------------------------------------------


def test_engines_are_compared_with_the_fastest_by_default(compare: Any) -> None:
    status, out, err = compare("a.json")
    assert (status, err) == (0, "")
    printed = lines(out)
    assert "read tier process against memory, the fastest" in printed
    assert [line for line in printed if line.startswith(("sqlite", "lmdb", "memory", "null"))] == [
        "lmdb 0.448 0.448 – 0.448 6 slower by a factor of at least 2.2",
        "sqlite 0.299 0.299 – 0.299 6 slower by a factor of at least 3.3",
    ]
    assert "99 % intervals" in out
    assert "a difference over 5 % can be ruled out" in out


def test_engines_are_compared_with_the_named_baseline(compare: Any) -> None:
    status, out, _ = compare("a.json", "--baseline", "lmdb", "--margin", "2 %")
    assert status == 0
    printed = lines(out)
    assert "read tier process against lmdb" in printed
    assert [line.split()[:2] for line in printed if line.startswith(("sqlite", "memory"))] == [
        ["memory", "2.23"],
        ["sqlite", "0.667"],
    ]
    assert "a difference over 2 % can be ruled out" in out


def test_versions_are_compared_with_the_oldest_in_release_order(compare: Any) -> None:
    status, out, err = compare("versions.json", "--by", "version")
    assert (status, err) == (0, "")
    printed = lines(out)
    assert printed[:4] == [
        "",
        "duckdb read tier process against 1.8, the oldest",
        "version figure ratio [99 %] samples verdict",
        "1.8 1,000,500",
    ]
    assert [line.split()[0] for line in printed[3:8]] == ["1.8", "1.9", "1.10", "1.11", "1.12"]
    assert (
        "duckdb (process), read: 1.11 is slower than 1.10 by at least 29 %, until 1.12, which is faster by at least"
        " 42 %." in printed
    )
    assert "against 1.10\n" in compare("versions.json", "--by", "version", "--baseline", "1.10").out


def test_changed_answer_comes_before_all_figures(compare: Any) -> None:
    printed = lines(compare("answers.json", "--by", "version").out)
    assert printed[1:4] == [
        "duckdb 1.9 answers otherwise than 1.8 read: row 3",
        "",
        "lmdb read tier process against 1.8, the oldest",
    ]
    assert any(line.startswith("duckdb 1.9 (process), read: no number: void: disagrees") for line in printed)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("a.json", "--by", "version"), "a.json: no engine has two versions; name them as -e ENGINE@VERSION,"),
        (("a.json", "--by", "colour"), "by: expected version, got 'colour'"),
        (("versions.json", "--by", "version", "--baseline", "2.0"), "versions.json: version 2.0 is not known"),
        (("versions.json", "a.json", "--by", "version"), "compares the versions within a single run"),
        (("versions.json", "--by", "version", "--why"), "--why explains a run or two"),
    ],
)
def test_bad_request_for_versions_is_one_line(compare: Any, words: tuple[str, ...], why: str) -> None:
    status, out, err = compare(*words)
    assert (status, out) == (2, "") and why in err and is_one_line(err)


def test_ratio_needs_at_least_three_blocks(compare: Any) -> None:
    out = compare("few.json").out
    assert "sqlite – – 2 can't tell, needs 1 more sample, 3 in all at least" in lines(out)


def test_the_json_holds_what_the_table_says(compare: Any) -> None:
    status, out, _ = compare("a.json", "--json")
    assert status == 0
    data = json.loads(out)
    assert set(data) == {"schema", "confidence", "margin", "run", "awake", "comparisons"}
    assert (data["schema"], data["confidence"], data["margin"], data["run"]) == (1, 0.99, 0.05, "a.json")
    first, second = data["comparisons"]
    place = {"phase": "read", "tier": "process", "params": {"clients": 1, "rate": "max"}, "metric": "throughput"}
    assert {key: first[key] for key in place} == place
    assert (first["engine"], first["baseline"], second["engine"]) == ("lmdb", "memory", "sqlite")
    assert (first["kind"], first["blocks"], first["more"]) == ("slower", 6, None)
    assert (first["ratio"], first["bound"]) == pytest.approx((1.5 / 3.35, 1 - 1.5 / 3.35), rel=1e-5)
    assert first["low"] <= first["ratio"] <= first["high"]
    assert first["text"] == "slower by a factor of at least 2.2"
    verdict = {
        "engine",
        "label",
        "baseline",
        "baseline_tier",
        "baseline_label",
        "kind",
        "ratio",
        "low",
        "high",
        "bound",
        "blocks",
        "more",
        "text",
    }
    assert all(set(found) == {*place, *verdict, "reported_by"} for found in data["comparisons"])


def test_the_markdown_is_a_table(compare: Any) -> None:
    status, out, _ = compare("a.json", "--markdown")
    assert status == 0
    assert out.startswith("**read, tier process**, against memory, the fastest\n\n")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines() if line[:1] == "|"]
    assert table[0] == ["engine", "ratio", "\\[99 %]", "samples", "verdict"]
    assert table[1] == [":---", "---:", "---:", "---:", ":---"]
    assert [row[0] for row in table[2:]] == ["lmdb", "sqlite"]


# -- two runs -------------------------------------------------------------------------------------------------


def test_differences_between_two_runs_are_printed_first(compare: Any) -> None:
    status, out, _ = compare("a.json", "b.json")
    assert status == 0
    printed = [line for line in lines(out) if line]
    assert printed[0] == "What differs from a.json (2026-01-01 10:00) to b.json (at an unknown time)"
    assert printed[1:3] == ["where what before after", "machine system.kernel 6.1 6.6"]
    assert "load" not in out
    assert "sqlite 1,000,500 op/s 2,001,000 op/s 2.00 1.976 – 2.02 faster by at least 97 %" in printed
    alike = next(line for line in printed if line.startswith("lmdb 1,"))
    assert re.search(r"1\.000 0\.98\d – 1\.01\d no difference larger than 1\.\d %$", alike)
    assert "memory (process), read: only before; after: not in the run" in printed
    assert "duckdb (process), read: only after" in printed
    assert "null" not in out


def test_the_json_of_two_runs(compare: Any) -> None:
    data = json.loads(compare("a.json", "b.json", "--json").out)
    assert {"schema", "confidence", "margin", "before", "after", "differences", "changes", "lost", "new"} <= set(data)
    assert data["differences"] == [{"where": "machine", "what": "system.kernel", "before": "6.1", "after": "6.6"}]
    changes = {found["engine"]: found for found in data["changes"]}
    assert {name: found["kind"] for name, found in changes.items()} == {"sqlite": "faster", "lmdb": "alike"}
    assert changes["sqlite"]["before"]["median"] == pytest.approx(1e6, rel=1e-2)
    assert changes["sqlite"]["after"]["median"] == pytest.approx(2e6, rel=1e-2)
    assert "state" not in changes["sqlite"], "that is of a gate"
    place = {"phase": "read", "tier": "process", "params": {"clients": 1, "rate": "max"}}
    assert data["lost"] == [{**place, "engine": "memory", "label": None, "why": "not in the run"}]
    assert data["new"] == [{**place, "engine": "duckdb", "label": None}]


@pytest.mark.claim("CPU time is shown beside every throughput")
def test_two_runs_show_client_and_server_cpu_time(compare: Any) -> None:
    printed = lines(compare("served-a.json", "served-b.json").out)
    assert "engine before after client cpu server cpu ratio [99 %] verdict" in printed
    sqlite, lmdb = (next(line for line in printed if line.startswith(name)) for name in ("sqlite", "lmdb"))
    assert " op/s 28 µs → 28 µs 6.0 µs → 5.0 µs " in sqlite
    assert " op/s 28 µs → 28 µs 1.0" in lmdb, "it has no server"
    out = compare("served-a.json", "a.json").out
    assert " 6.0 µs → – " in " ".join(lines(out)), "of the second nothing is recorded"
    assert "cpu" not in compare("a.json", "b.json").out
    data = json.loads(compare("served-a.json", "served-b.json", "--json").out)
    costs = {found["engine"]: found["cpu_ns_per_item"] for found in data["changes"]}
    assert costs == {
        "lmdb": {at: {"client": 28_400, "server": None} for at in ("before", "after")},
        "sqlite": {"before": {"client": 28_400, "server": 6_000}, "after": {"client": 28_400, "server": 5_000}},
    }


@pytest.mark.claim("Less memory is better, and is not called faster")
def test_engines_are_compared_by_memory(compare: Any) -> None:
    out = compare("lean.json", "--metric", "memory").out
    printed = lines(out)
    by = "by the peak memory: a ratio over 1 is less memory"
    assert f"read tier process against sqlite, which needs the least memory, {by}" in printed
    assert "lmdb 0.667 0.667 – 0.667 6 needs at least 50 % more memory" in printed
    assert "Ratios of memory, the baseline's to the row's, block by block" in out
    (found,) = json.loads(compare("lean.json", "--metric", "memory", "--json").out)["comparisons"]
    assert (found["metric"], found["kind"], found["text"]) == ("memory", "slower", "needs at least 50 % more memory")
    status, _, err = compare("a.json", "--metric", "memory")
    assert status == 2 and "nothing to compare" in err, "a file of an earlier version"


@pytest.mark.claim("Less memory is better, and is not called faster")
def test_runs_are_compared_by_memory(compare: Any) -> None:
    out = compare("lean.json", "fat.json", "--metric", "memory").out
    printed = lines(out)
    assert "engine before after ratio [99 %] verdict" in printed
    assert "sqlite 100 MiB 205 MiB 0.488 0.488 – 0.488 needs at least 2.0 times as much memory" in printed
    assert any(line.startswith("lmdb 150 MiB 149 MiB 1.007 ") for line in printed)
    assert "atios of memory, before to after" in out and "faster" not in out and "slower" not in out
    data = json.loads(compare("lean.json", "fat.json", "--json").out)
    peaks = {found["engine"]: found["peak_bytes"] for found in data["changes"]}
    assert peaks["sqlite"] == {
        "before": {"client": 100 << 20, "server": None},
        "after": {"client": 205 << 20, "server": None},
    }


def test_two_runs_as_markdown(compare: Any) -> None:
    out = compare("a.json", "b.json", "--markdown").out
    assert out.startswith("**What differs**, from a.json")
    assert "| machine | system.kernel | 6.1 | 6.6 |" in out
    assert "\n- memory (process), read: only before; after: not in the run\n" in out


# -- several runs ---------------------------------------------------------------------------------------------


def test_several_runs_are_compared_with_the_first(compare: Any) -> None:
    status, out, err = compare("a.json", "b.json", "c.json")
    assert (status, err) == (0, "")
    printed = [line for line in lines(out) if line]
    differs = [line for line in printed if line.startswith("What differs")]
    assert differs == [
        f"What differs from a.json (2026-01-01 10:00) to {name} (at an unknown time)" for name in ("b.json", "c.json")
    ]
    assert printed.count("read tier process") == 1
    assert "engine run before after ratio [99.5 %] verdict" in printed
    rows = [line for line in printed if re.match(r"(sqlite|lmdb|memory) [bc]\.json ", line)]
    assert [row.split()[:2] for row in rows] == [
        ["sqlite", "b.json"],
        ["sqlite", "c.json"],
        ["lmdb", "b.json"],
        ["memory", "c.json"],
    ]
    assert rows[0].startswith("sqlite b.json 1,000,500 op/s 2,001,000 op/s 2.00 ") and "faster by at least" in rows[0]
    assert rows[1].startswith("sqlite c.json 1,000,500 op/s 500,250 op/s 0.500 ")
    assert "b.json: memory (process), read: only before; after: not in the run" in printed
    assert "c.json: lmdb (process), read: only before; after: not in the run" in printed
    assert "99.5 % intervals" in out and "equal in all 3 runs" in out


def test_several_runs_widen_intervals_in_the_same_json(compare: Any) -> None:
    status, out, _ = compare("a.json", "b.json", "c.json", "--json")
    assert status == 0
    data = json.loads(out)
    assert set(data) == {"schema", "confidence", "margin", "before", "runs"}
    assert (data["schema"], data["confidence"], data["before"]) == (1, pytest.approx(0.995), "a.json")
    for run, name in zip(data["runs"], ("b.json", "c.json"), strict=True):
        two = json.loads(compare("a.json", name, "--json").out)
        assert (two["confidence"], run["confidence"]) == (0.99, data["confidence"])
        for wider, change in zip(run["changes"], two["changes"], strict=True):
            assert wider["low"] < change["low"] < change["ratio"] < change["high"] < wider["high"]
        verdict = ("low", "high", "bound", "text", "kind", "more")
        alike = [
            {**of, "confidence": 0, "changes": [{**c, **dict.fromkeys(verdict)} for c in of["changes"]]}
            for of in (run, two)
        ]
        assert alike[0] == alike[1]


def test_several_runs_as_markdown(compare: Any) -> None:
    status, out, _ = compare("a.json", "b.json", "c.json", "--markdown")
    assert status == 0
    assert out.count("**What differs**, from a.json") == 2
    assert "| engine | run | before | after | ratio | \\[99.5 %] | verdict |" in out
    assert "\n- b.json: memory (process), read: only before; after: not in the run\n" in out


def test_halves_of_a_steady_run_do_not_differ(compare: Any) -> None:
    status, out, _ = compare("a.json", "--halves", "--json")
    assert status == 0
    kinds = {found["engine"]: found["kind"] for found in json.loads(out)["changes"]}
    assert set(kinds) == {"sqlite", "lmdb", "memory"}
    assert set(kinds.values()) <= {"alike", "unclear"}


# -- refused input --------------------------------------------------------------------------------------------

NOTHING = "nothing to compare: no two engines have a number in a phase at the same tier"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["a.json", "--baseline", "sqlit"], "a.json: engine sqlit is not known; did you mean sqlite?"),
        (["a.json", "--baseline", "null"], "a.json: engine null is not known; there are: lmdb, memory, sqlite"),
        (["a.json", "--metric", "p95"], "metric p95 is not known; did you mean p99?"),
        (["a.json", "--margin", "0"], "--margin 0: expected a percentage over 0 and up to 100, such as 5%"),
        (["a.json", "--margin", "five"], "--margin five: expected a percentage over 0 and up to 100, such as 5%"),
        (["a.json", "--margin", "101%"], "--margin 101%: expected a percentage over 0 and up to 100, such as 5%"),
        (["a.json", "--json", "--markdown"], "--json and --markdown exclude each other"),
        (
            ["a.json", "b.json", "--baseline", "sqlite"],
            "a baseline is for engines within a run; of several runs the first one is the baseline",
        ),
        (["a.json", "b.json", "--halves"], "halves: expected a single run, got 2"),
        (["a.json", "b.json", "c.json", "--halves"], "halves: expected a single run, got 3"),
        (
            ["a.json", "b.json", "./b.json"],
            "b.json is named twice: each run is compared with the first, so name it once",
        ),
        (
            ["a.json", "b.json", "a.json"],
            "a.json is named twice: each run is compared with the first, so name it once",
        ),
        (
            ["a.json", "b.json", "arrays.json"],
            "can't compare a.json of suite records with arrays.json of suite arrays",
        ),
        (
            ["alone.json", "a.json", "other.json"],
            "alone.json and other.json have no engine with the same phase, tier and parameters",
        ),
        (["few.json", "--halves"], "comparing halves needs at least 6 blocks; few.json has 2"),
        (["alone.json"], f"alone.json: {NOTHING}"),
        (["tiers.json"], f"tiers.json: {NOTHING}"),
        (["tiers.json", "--baseline", "lmdb"], f"tiers.json: {NOTHING}"),
        (["a.json", "arrays.json"], "can't compare a.json of suite records with arrays.json of suite arrays"),
        (["missing.json"], "can't read missing.json: No such file or directory"),
        (["a.json", "not.json"], "not.json is not a run file of dyno"),
        ([], "Missing argument 'RUN'; see dyno compare --help"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_invalid_comparison_is_a_one_line_usage_error(compare: Any, words: list[str], line: str) -> None:
    status, out, err = compare(*words)
    assert (status, out) == (2, "")
    assert is_one_line(err)
    assert err.strip() == f"dyno: {line}"
