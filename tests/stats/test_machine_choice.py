"""Compares machines by several suites: which to buy, what is left out, and which files are of one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from madeup import a_cell, of_rates

from dyno.contracts.model import Tier, UsageError
from dyno.report.site.league import machine_name
from dyno.report.tables.machines import by_machine
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.results.names import distinct_names
from dyno.stats.costs import Prices
from dyno.stats.machine_choice import choose, decide, machines

NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002)


def a_run(
    path: str,
    suite: str,
    speed: float,
    cpu: str = "A",
    tier: Tier = Tier.PROCESS,
    engines: Sequence[str] = ("sqlite",),
    ram: bool = False,
) -> Run:
    rates = [100 * speed * noise for noise in NOISE]
    host = {"cpu": {"model": cpu}, "filesystem": {"ram_backed": ram, "type": "tmpfs"}}
    cells = [replace(a_cell(engine, tier), suite=suite) for engine in engines]
    run = of_rates(*((cell, {"fill": rates, "read": rates}) for cell in cells), host=host)
    return replace(run, path=Path(path), recorded={**run.recorded, "plan": {**run.recorded["plan"], "suite": suite}})


def of_suites(**speeds: tuple[float, float]) -> list[Run]:
    """Runs of two machines in two folders: the speeds of each suite here and there."""
    return [
        a_run(f"{folder}/{suite}.json", suite, each[at], cpu)
        for at, (folder, cpu) in enumerate((("here", "A"), ("there", "B")))
        for suite, each in speeds.items()
    ]


def the_table(runs: Sequence[Run], prices: Prices | None = None) -> Section:
    return next(by_machine(runs, prices))


def test_all_suites_are_in_one_table() -> None:
    runs = of_suites(cpu=(1, 2), memory=(1, 2), oltp=(1, 2), records=(1, 2))
    section = the_table(runs)
    assert [row[0] for row in section.rows] == ["cpu", "memory", "oltp", "records"]
    assert section.heads[3:5] == ["here", "there"]
    assert {row[4].split()[0] for row in section.rows} == {"2.00"}
    assert (
        section.lines[0].startswith("Buy there: faster by at least 9")
        and "cpu, memory, oltp and records" in section.lines[0]
    )


def test_mixed_results_leave_machine_choice_unclear() -> None:
    section = the_table(of_suites(cpu=(1, 2), memory=(2, 1), oltp=(1, 1)))
    (sentence, *_) = section.lines
    assert sentence.startswith("Can't tell which to buy: here is ")
    assert "in memory; there is" in sentence and "no difference in oltp" in sentence


def test_works_without_clear_winner_share_one_reason() -> None:
    runs = of_suites(cpu=(1, 2), memory=(1, 1.01), oltp=(1, 1.01))
    brief = [replace(run, attempts=run.attempts[:2]) if run.plan.suite != "cpu" else run for run in runs]
    sentence = the_table(brief).lines[0]
    assert "there is faster by" in sentence
    assert "no clear winner in memory and oltp, which needs 1 more sample, 3 in all at least" in sentence


def test_price_can_reverse_the_machine_choice() -> None:
    runs = of_suites(cpu=(1, 1.5), memory=(1, 1.5))
    assert decide(choose(machines(runs))).best == "there"
    prices = Prices("p.toml", "EUR", None, 1, {}, {"here": 0.1, "B": 0.2})
    section = the_table(runs, prices)
    assert section.rows[-1][3:5] == ["0.1 EUR", "0.2 EUR"]
    assert section.lines[0].startswith("For its price, buy here: faster by at least 3")
    some = replace(prices, machines={"here": 0.1})
    assert "Not every machine has a price" in the_table(runs, some).lines[0]


def test_equal_machines_are_called_equal() -> None:
    assert "Buy any of here and there" in the_table(of_suites(cpu=(1, 1), memory=(1, 1))).lines[0]


@pytest.mark.claim("Machines are never compared by rows of two durabilities")
@pytest.mark.parametrize(
    ("change", "why"), [("tier", "figures of another tier"), ("ram", "less durable than the tier")]
)
def test_unequal_durability_is_named_and_left_out(change: str, why: str) -> None:
    runs = of_suites(cpu=(1, 2))
    runs.append(a_run("here/records.json", "records", 1, tier=Tier.POWER))
    tier = Tier.PROCESS if change == "tier" else Tier.POWER
    runs.append(a_run("there/records.json", "records", 9, "B", tier=tier, ram=change == "ram"))
    section = the_table(runs)
    assert [row[0] for row in section.rows] == ["cpu"]
    left_out = [line for line in section.lines if line.startswith("Left out: records")]
    assert len(left_out) == 2 and why in "".join(left_out)


def test_suite_on_only_one_machine_is_reported() -> None:
    section = the_table([*of_suites(cpu=(1, 2)), a_run("there/volume.json", "volume", 1, "B")])
    assert "Left out: volume on there, all rows: no figure to compare with from here." in section.lines


def test_suite_with_several_engines_keeps_its_ratio_tables() -> None:
    of = [a_run(f"{name}/records.json", "records", 1, name, engines=("sqlite", "lmdb")) for name in "ab"]
    titles = [section.title for section in by_machine([*of, *(a_run(f"{n}/cpu.json", "cpu", 1, n) for n in "ab")])]
    assert titles[1:3] == ["records  fill  tier process", "records  read  tier process"]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ("here/cpu here/memory there/cpu there/memory", ["here", "there"]),
        ("cpu-here memory-here cpu-there memory-there", ["here", "there"]),
        ("one two three four", ["A", "B"]),
        ("here/cpu there/cpu", ["here", "there"]),
        ("old new", ["old", "new"]),
    ],
)
def test_machine_names_come_from_files_or_cpu_models(files: str, names: list[str]) -> None:
    paths = files.split()
    suites = ["cpu", "memory"] if len(paths) > 2 else ["cpu"]
    runs = [
        a_run(f"{path}.json", suites[at % len(suites)], 1, "AB"[at >= len(paths) // 2])
        for at, path in enumerate(paths)
    ]
    assert [machine.name for machine in machines(runs)] == names
    assert len(choose(machines(runs)).lines) == len(suites)


def test_equal_machines_in_one_folder_stay_apart() -> None:
    runs = [a_run("old.json", "cpu", 1), a_run("new.json", "cpu", 2)]
    assert [machine.name for machine in machines(runs)] == ["old", "new"]
    with pytest.raises(UsageError, match="two machines or more"):
        list(by_machine(runs[:1]))
    with pytest.raises(UsageError, match="have no row"):
        list(by_machine([runs[0], a_run("new.json", "memory", 2, "B")]))


def test_other_kernel_is_not_another_machine() -> None:
    """A kernel keeps some MiB of memory to itself."""

    def booted(path: str, suite: str, cpu: str, memory_bytes: int) -> Run:
        run = a_run(path, suite, 1, cpu)
        host = {**run.recorded["host"], "memory": {"total_bytes": memory_bytes}}
        return replace(run, recorded={**run.recorded, "host": host})

    runs = [
        booted(f"{cpu}/{suite}.json", suite, cpu, (16 << 30) - (kept << 20))
        for cpu in ("A", "B")
        for suite, kept in (("cpu", 200), ("memory", 230))
    ]
    assert [machine.name for machine in machines(runs)] == ["A", "B"]
    assert len({machine_name(run) for run in runs}) == 2


def test_distinct_names_keep_only_differing_path_parts() -> None:
    paths = [Path("/r/here/memory.json"), Path("/r/there/memory.json"), Path("/r/there/cpu.json")]
    assert distinct_names(paths) == ["here/memory", "there/memory", "cpu"]
    assert distinct_names([Path("r.json"), Path("r.dyno")]) == ["r", "r.dyno"]
    assert distinct_names([Path("r.json"), Path("r.json"), Path("R.json")]) == ["r", "r-2", "R-3"]
