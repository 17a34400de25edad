"""Synthetic run files of any size for tests of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from shell import DATA

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.decoded_types import Point
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Caveat, Tier
from dyno.fields import Sample
from dyno.results import Attempt, Run

SECOND = 10**9
ENGINES = ("quick", "even", "slow:cache_mib=8")
PHASES = ("fill", "read", "scan")
BULK = "fill"
RECORDS_PHASES = ("insert-blind-indices", "rand-key")
TIERS = {Tier.PROCESS: ENGINES, Tier.VOLATILE: ("brief",)}
CPU = {"model": "A Processor", "logical_cores": 4, "available_cores": 4}
# Facts of a quiet machine, except for its load.
HOST = {
    "cpu": CPU,
    "memory": {"total_bytes": 16 << 30, "available_bytes": 12 << 30},
    "filesystem": {"type": "ext4", "mount_point": "/", "free_bytes": 90 << 30, "fsync_ns": 900_000},
    "load": {"minutes_1": 7.5},
}
SPEAKS_AGAINST = "load average 7.5 on 4 cores"


def write(
    path: Path,
    tiers: Mapping[Tier, Sequence[str]] = TIERS,
    phases: Sequence[str] = PHASES,
    samples: int = 5,
    blocks: int | None = None,
    operations: int = 1_000,
    seconds: int = 6,
    params: Mapping[str, Sequence[Any]] | None = None,
    errors: Mapping[str, str] | None = None,
    caveat: str = "is made up",
) -> Path:
    """Writes a run of these engines; the first of each tier is the fastest by far.

    `blocks`: number of finished samples. `errors`: engines whose trials all fail, with the error. `params`: values of
    the parameters, all of whose combinations have cells.
    """
    cells = [
        _cell(asked, tier, dict(zip(params or {}, values, strict=True)))
        for values in _product(list((params or {}).values()))
        for tier, engines in tiers.items()
        for asked in (*engines, "nothing")
    ]
    plan = {"suite": "records", "phases": list(phases), "samples": samples, "seed": 1, "budget": 30.0, "timeout": 60}
    header = {"dyno": "0.1.0", "created": "2026-01-02T03:04:05+00:00", "plan": plan, "host": HOST}
    results.create(path, header, cells)
    random = np.random.default_rng(1)
    for block in range(samples if blocks is None else blocks):
        for at, cell in enumerate(cells):
            why = (errors or {}).get(cell.asked)
            assert cell.tier is not None
            rank = [*tiers[cell.tier], "nothing"].index(cell.asked)
            measured = [] if why else [_sample(p, n, rank, operations, seconds, random) for n, p in enumerate(phases)]
            if rank == 1 and not cell.floor:
                measured = [replace(sample, server=_used(sample.items, 30_000)) for sample in measured]
            results.append(path, _attempt(at, block, why, tuple(measured), caveat))
    return path


def _product(values: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [()]
    for some in values:
        found = [(*before, value) for before in found for value in some]
    return found


def _cell(asked: str, tier: Tier, params: Mapping[str, Any]) -> Cell:
    engine, _, given = asked.partition(":")
    options = dict([given.split("=", 1)]) if given else {}
    return Cell("records", engine, options, tier, {"clients": 1, "rate": "max", **params}, asked == "nothing")


def _sample(phase: str, number: int, rank: int, operations: int, seconds: int, random: np.random.Generator) -> Sample:
    middle = 2_000 * 3**rank * (number + 1)
    spans = random.lognormal(np.log(middle), 0.5, operations).astype(np.int64)
    recorder = Recorder()
    recorder.add(spans)
    elapsed, items = int(seconds * SECOND * random.normal(1.02, 0.01)), max(operations * 27 // 9**rank, 1)
    bulk = phase == BULK
    series = [
        Point(
            from_ns=at * SECOND,
            interval_ns=SECOND,
            operations=int(random.normal(900, 30)),
            p50_ns=middle,
            p99_ns=middle * 4,
        )
        for at in range(0 if bulk else seconds)
    ]
    return Sample(
        phase=phase,
        unit="key" if bulk else "op",
        operations=1 if bulk else items,
        items=items,
        elapsed_ns=elapsed,
        busy_ns=elapsed,
        errors=0,
        # Causes a doubt about one row.
        ended_by="budget" if phase == "scan" and rank == 1 else "count",
        checked=items,
        bulk=bulk,
        histogram=None if bulk else recorder.encode(),
        series=tuple(series),
        client=_used(items, 20_000),
        bytes_on_disk=(rank + 1) << 20,
    )


def _used(items: int, each_ns: int) -> dict[str, int | None]:
    """CPU time for this many items."""
    return {"user_ns": items * each_ns, "system_ns": 0}


def _attempt(cell: int, block: int, why: str | None, samples: tuple[Sample, ...], caveat: str) -> Attempt:
    return Attempt(
        cell=cell,
        block=block,
        attempt=0,
        outcome="error" if why else "ok",
        why=why,
        phase=None,
        samples=samples,
        started="2026-01-02T03:04:05+00:00",
        duration_ns=SECOND,
        version="1.2.3",
        settings={"sync": True, "cache_bytes": 8 << 20},
        caveats=(Caveat("made-up", caveat),),
        resources={},
        output=None,
    )


RECORDS_ROWS = ("lmdb", "sqlite", "sqlite:cache_mib=8", "memory")


def measured_records(
    rows: Sequence[str] = RECORDS_ROWS, phases: Sequence[str] = RECORDS_PHASES, blocks: int = 3
) -> Run:
    """The run of `records` in tests/data with these rows: those that it lacks are copies of lmdb's, and memory is at
    the tier volatile. Both tiers have the null engines."""
    stored = results.load(DATA / "run-schema-3.json")
    sources = {cell.engine: at for at, cell in enumerate(stored.cells)}
    cells: list[Cell] = []
    attempts: list[Attempt] = []
    for tier in (Tier.PROCESS, Tier.VOLATILE):
        for row in [row for row in rows if (row == "memory") == (tier is Tier.VOLATILE)] + ["null", "nullkv"]:
            engine, _, option = row.partition(":")
            source = sources.get(engine, sources["lmdb"])
            for attempt in stored.attempts:
                if attempt.cell == source and attempt.block < blocks:
                    samples = [sample for sample in attempt.samples if sample.phase in phases]
                    if engine == "memory":
                        samples = [replace(sample, bytes_on_disk=None, written_bytes=None) for sample in samples]
                        attempt = replace(attempt, caveats=())
                    attempts.append(replace(attempt, cell=len(cells), samples=tuple(samples)))
            options = {"cache_mib": 8} if option else {}
            cells.append(replace(stored.cells[source], engine=engine, options=options, tier=tier))
    attempts.sort(key=lambda attempt: attempt.block)
    plan = {**stored.recorded["plan"], "phases": list(phases), "samples": blocks}
    return Run(stored.path, {**stored.recorded, "plan": plan}, tuple(cells), tuple(attempts))


def with_clients(run: Run, engines: Sequence[str], *clients: int) -> Run:
    """The first block of these engines' rows without options, in the last phase, once for each number of clients."""
    cells: list[Cell] = []
    attempts: list[Attempt] = []
    for number in clients:
        for at, cell in enumerate(run.cells):
            if cell.engine in engines and not cell.options:
                (first,) = [each for each in run.attempts if each.cell == at and each.block == 0]
                attempts.append(replace(first, cell=len(cells), samples=first.samples[-1:]))
                cells.append(replace(cell, params={**cell.params, "clients": number}))
    plan = {**run.recorded["plan"], "phases": run.recorded["plan"]["phases"][-1:], "samples": 1}
    return replace(run, recorded={**run.recorded, "plan": plan}, cells=tuple(cells), attempts=tuple(attempts))
