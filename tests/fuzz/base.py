"""Inputs of the fuzz tests: small run files with every kind of field, plans, and command lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dyno import results
from dyno.contracts.cell import Cell
from dyno.contracts.histogram import Recorder
from dyno.contracts.model import Caveat, Tier
from dyno.fields import Sample
from dyno.results import Attempt

DATA = Path(__file__).parents[1] / "data"
SECOND = 10**9
USED = {
    **dict.fromkeys(("user_ns", "system_ns"), 80_000_000),
    **dict.fromkeys(("voluntary_switches", "involuntary_switches", "major_faults", "asked_bytes", "read_bytes"), 9),
    "written_bytes": -4096,
    **dict.fromkeys(("core_wait_ns", "minor_faults", "read_calls", "write_calls", "device_wait_ns"), 9),
}
HOST = {
    "cpu": {
        "model": "A Processor",
        "logical_cores": 4,
        "available_cores": 4,
        "quota_cores": 3.5,
        "governor": "ondemand",
    },
    "memory": {
        "total_bytes": 16 << 30,
        "available_bytes": 12 << 30,
        "swap_total_bytes": 1 << 30,
        "swap_used_bytes": 5,
    },
    "system": {"os": "Debian", "kernel": "6.1", "architecture": "x86_64", "libc": "glibc 2.36"},
    "python": {"version": "3.11.7", "implementation": "CPython"},
    "filesystem": {"type": "ext4", "mount_point": "/", "free_bytes": 90 << 30, "fsync_ns": 900, "options": ["rw"]},
    "clock": {"source": "tsc", "cost_ns": 40, "resolution_ns": 1},
    "load": {"minutes_1": 7.5},
    "steal_percent": 0.5,
    "psi": {"cpu": {"some_avg10_percent": 2.5}},
    "pressure": {"seconds": 0.3, "steal_percent": 3.0, "others_busy_percent": 20.0, "swapped_in_bytes": 0},
}
PHASES = ("fill", "mixed", "read", "read-cold")
DECLARED = {
    "phases": [
        {"name": "fill", "title": "fills", "unit": "key", "writes": True, "metric": "bandwidth"},
        {"name": "mixed", "title": "mixes", "unit": "op", "writes": True, "kinds": {"get": False, "put": True}},
        {
            "name": "read",
            "title": "reads",
            "unit": "op",
            "writes": False,
            "temperature": "hot",
            "parts": ["dns", "rest"],
        },
        {
            "name": "read-cold",
            "title": "reads",
            "unit": "op",
            "writes": False,
            "temperature": "cold",
            "metric": "p99",
        },
    ],
    "charts": [
        {
            "name": "size-speed",
            "title": "Size and speed",
            "reading": "It shows.",
            "x": {"of": "fact", "name": "ratio", "title": "ratio", "kind": "ratio", "scale": "log"},
            "y": {"of": "metric", "name": "throughput"},
            "line": "packer",
            "point": "size",
            "phases": ["read"],
        }
    ],
}
LAYOUT = {
    "columns": [
        {"title": "size", "of": "param", "name": "size"},
        {"title": "ratio", "of": "fact", "name": "ratio", "kind": "ratio"},
        {"title": "reads/s", "of": "rate", "name": "read"},
        {"title": "mixes/s", "of": "operations", "name": "mixed"},
    ],
    "legend": ["ratio: of sizes"],
}


def recorded(*spans_ns: int) -> bytes | None:
    recorder = Recorder()
    recorder.add(list(spans_ns))
    return recorder.encode()


def sample(phase: str, rank: int, block: int, **changed: Any) -> Sample:
    items, middle = 3_000 * rank, 40_000 // rank + block
    latencies = recorded(middle, middle * 2, middle * 40)
    point = {"interval_ns": SECOND, "operations": items // 3, "p50_ns": middle, "p99_ns": middle * 40}
    values: dict[str, Any] = {
        "phase": phase,
        "unit": "op",
        "operations": items,
        "items": items,
        "elapsed_ns": 3 * SECOND + block,
        "busy_ns": 2 * SECOND,
        "errors": 0,
        "ended_by": "count",
        "checked": items,
        "wall_ns": 4 * SECOND,
        "pause_cpu_ns": 10_000_000,
        "histogram": latencies,
        "client": USED,
        "client_peak_bytes": rank << 26,
        "bytes_on_disk": rank << 20,
        "series": tuple({"from_ns": at * SECOND, **point} for at in range(3)),
        "facts": {"ratio": 1.5 * rank, "served": 1_000, "kept_bytes": 5 << 30, "reading_requests": 1_001},
        "device": {"read_bytes": 4096, "written_bytes": 0},
        "written_bytes": 8192,
        "payload_bytes": 4000,
    }
    return Sample(**{**values, **changed})


def samples(rank: int, block: int, rate: bool) -> tuple[Sample, ...]:
    half = recorded(5_000, 9_000)
    opened = {"due": 10_000, "response": recorded(70_000, 900_000), "late": recorded(90, 60_000)} if rate else {}
    cold = {"file_bytes": 1 << 20, "resident_bytes": 4096, "evicted_by": "files"}
    return (
        sample(
            "fill", rank, block, unit="key", operations=1, bulk=True, histogram=None, bytes=1 << 24, settled=False
        ),
        sample(
            "mixed", rank, block, by_kind={"get": half, "put": half}, settled=True, server=USED, clients=2, **opened
        ),
        sample("read", rank, block, temperature="hot", by_part={"dns": half, "rest": half}, ended_by="budget"),
        sample("read-cold", rank, block, temperature="cold", residency=cold, errors=1, first_error="OSError: no"),
    )


def attempt(cell: int, block: int, found: tuple[Sample, ...], **changed: Any) -> Attempt:
    values: dict[str, Any] = {
        "attempt": 0,
        "outcome": "ok",
        "why": None,
        "phase": None,
        "output": None,
        "version": "1.2.3",
        "started": f"2026-01-02T03:{block:02}:{cell:02}+00:00",
        "duration_ns": 9 * SECOND,
        "settings": {"sync": True, "cache_bytes": 8 << 20, "mode": "wal", "none": None},
        "caveats": (Caveat("made-up", "is made up"),),
        "facts": {"seeks": 3},
        "spent_ns": {"phase": SECOND},
        "resources": {"client": USED, "server": None, "peak_anonymous_bytes": 5},
        "loop": {"name": "native", "clock": "c", "python": "3.12.1", "operation_ns": 17.5, "span_ns": 9},
        "strain": {"steal_percent": 2.5, "memory_stall_ns": SECOND, "throttled_ns": 0, "elapsed_ns": 9 * SECOND},
    }
    return Attempt(cell=cell, block=block, samples=found, **{**values, **changed})


def run_file(path: Path, rate: bool, until: bool, layout: bool, sizes: Sequence[int] = (10, 200)) -> bytes:
    """A run of two engines and a null engine at some sizes; one engine has a failed trial, another lacks a phase."""
    cells = [
        Cell(
            "made-up",
            name,
            options,
            tier,
            {"size": size, "packer": "zlib", "clients": 2, "rate": 5_000 if rate else "max"},
            floor,
        )
        for size in sizes
        for name, options, tier, floor in (
            ("quick", {}, Tier.PROCESS, False),
            ("slow", {"cache": 8, "sync": True}, Tier.PROCESS, False),
            ("nothing", {}, Tier.PROCESS, True),
        )
    ]
    plan = {
        "suite": "made-up",
        "phases": list(PHASES),
        "samples": 3,
        "seed": 1,
        "budget": 30.0,
        "timeout": 60,
        "duration": None,
        "warmup": 0.5,
        "arrivals": "poisson",
        "loop": "auto",
        "memory": None,
        "retries": 1,
        "until": 0.05 if until else None,
        "within": 60 if until else None,
        "confine": 1 << 30,
    }
    header = {"dyno": "0.1.0", "created": "2026-01-02T03:04:05+00:00", "plan": plan, "host": HOST, **DECLARED}
    path.unlink(missing_ok=True)
    results.create(path, {**header, "layout": LAYOUT if layout else None}, cells)
    for block in range(3):
        for at, cell in enumerate(cells):
            measured = samples({"quick": 9, "slow": 2}.get(cell.engine, 90), block, rate)
            if (at, block) == (1, 0):
                results.append(path, attempt(at, block, measured[:1], outcome="crash", why="killed", output="said\n"))
                results.append(path, attempt(at, block, measured, attempt=1))
            elif at == 4:
                results.append(path, attempt(at, block, measured[:3], absent={"read-cold": "keeps no files"}))
            else:
                results.append(path, attempt(at, block, measured))
    if until:
        results.end(path, "narrow")
    return path.read_bytes()


def search_file(path: Path) -> bytes:
    """A search for the capacities of two engines: closed loops, and probes of every stage."""
    cells = [Cell("made-up", name, {}, Tier.PROCESS, {"clients": 2, "rate": "max"}) for name in ("quick", "slow")]
    plan = {"suite": "made-up", "phases": ["mixed"], "samples": 1, "seed": 1, "budget": 5.0, "duration": 1.0}
    plan |= {"limit": ["p99<5ms", "errors<1%"], "confirm": 1.0, "within": 600.0, "warmup": 0.5, "arrivals": "poisson"}
    header = {"dyno": "0.1.0", "created": "2026-01-02T03:04:05+00:00", "plan": plan, "host": HOST, **DECLARED}
    path.unlink(missing_ok=True)
    results.create(path, {**header, "layout": None}, cells)
    stages = [*["explore"] * 4, *["confirm"] * 8, "last"]
    for at, rank in ((0, 9), (1, 2)):
        results.append(path, attempt(at, 0, (sample("mixed", rank, 0),)))
        for block, stage in enumerate(stages, 1):
            rate = 900.0 * rank + 20 * (block % 4)
            broken = {"p99<5ms": 60 * (block % 2), "errors<1%": 0}
            opened = {"due": 3_000, "judged": 2_000, "broken": broken, "response": recorded(70_000, 9_000_000)}
            found = sample("mixed", rank, block, late=recorded(90), **opened)
            results.append(path, attempt(at, block, (found,), stage=stage, rate=rate))
    results.end(path, "searched")
    return path.read_bytes()


def without_checksums(whole: bytes) -> bytes:
    """A run file as of earlier versions. In others, the checksums would hide what else is checked."""
    return re.sub(rb',"crc32":"[0-9a-f]{8}"', b"", whole)


def run_files(place: Path) -> list[bytes]:
    attempts = [
        run_file(place / "r.json", rate, until, layout)
        for rate, until, layout in ((False, False, False), (True, True, False), (False, False, True))
    ]
    older = (DATA / "run-schema-3.json").read_bytes()
    return [*map(without_checksums, [*attempts, search_file(place / "s.json")]), older]


PLANS = (
    """suite = "records"
preset = "quick"
engine = ["lmdb", "sqlite:journal_mode=delete+cache_mib=8", { name = "leveldb", write_buffer_mib = 16 }]
phases = ["rand-key", "update", "mixed"]
tier = "process"
clients = [1, 2]
rate = ["max", 2_000]
arrivals = "poisson"
samples = 6
until = "5%"
within = 3600
seed = 7
duration = 5
warmup = 1
loop = "auto"
timeout = 300
memory = 4
confine = 2
retries = 2
[param]
records = 50_000
value_size = [100, 1_000]
txn = 1
mix = "80:20"
""",
    """suite = "compression"
samples = 2
budget = 0.5
engine = []
""",
)
PRICES = """currency = "USD"
kept_gb = 1000
millions = 20
[prices.quick]
kept_gb_month = 0.023
reading_requests = 0.4
ratio = 2
[prices.slow]
month = 60
kept_gb_month = 0
"""
_OUTCOMES = {"count": 5, "outcomes": {"ok": 4, "lost": 1}, "lost": 3, "seldom": 10}
_FAULT = {
    "when": "cut",
    "outcome": "lost",
    "why": "3 acknowledged transactions are not there",
    "acknowledged": 20,
    "begun": 21,
    "held": 17,
    "witness": ["a write of 5 bytes at 0 of a (write) was lost"] * 9,
    "directory": "kept/here",
}
CRASHED: tuple[dict[str, object], ...] = (
    {"kind": "crash", "schema": 1, "dyno": "0.1.0", "seed": 1, "kills": 5, "states": 5, "model": "ext4"},
    {
        "kind": "row",
        "engine": "quick:sync=no",
        "tier": "power",
        "settings": {"sync": True, "size": 1.5},
        "version": "Quick 1.2",
        "verdict": "broken",
        "why": "cut: 1 lost of 5",
        "traced": "proven",
        "killed": _OUTCOMES,
        "cut": _OUTCOMES,
        "recovery": None,
        "birth": None,
        "device": _OUTCOMES,
        "model": "ext4",
        "system": "xfs",
        "faults": [_FAULT, {**_FAULT, "held": None}],
        "notes": ["a note"],
    },
    {
        "kind": "row",
        "engine": "slow",
        "tier": "process",
        "settings": {},
        "version": None,
        "verdict": "held",
        "why": "",
        "traced": None,
        "killed": _OUTCOMES,
        "cut": None,
        "recovery": None,
        "birth": None,
        "device": None,
        "model": "posix",
        "system": None,
        "faults": [],
        "notes": [],
    },
)
# Flags that end every `dyno run` once its plan is complete, before anything starts. Each is given twice, because a
# preceding flag may take the first as its value.
NOTHING_IS_RUN = ("--resume", "--resume", "--overwrite", "--overwrite")
COMMANDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("run", "records", "-e", "lmdb,sqlite:cache_mib=8", "-p", "records=10", "--samples", "1"), NOTHING_IS_RUN),
    (("run", "records", "--until", "5%", "--within", "9", "--clients", "1,2", "--rate", "10"), NOTHING_IS_RUN),
    (("run", "plan.toml", "--phases", "rand-key", "--memory", "1", "--tier", "power"), NOTHING_IS_RUN),
    (("replicate", "acid-2013", "--preset", "quick", "--samples", "1"), NOTHING_IS_RUN),
    (("list", "engines"), ()),
    # No engine has this name, and `dyno install` checks names before it downloads anything.
    (("install", "sqlite", "memory"), ("no-such-engine",)),
    (("doctor", "--json", "--work", "work"), ("--no-such-flag",)),
    (("conform", "sqlite", "--tier", "power", "--json"), ("--tier", "nothing", "--tier", "nothing")),
    (("selftest", "--only", "timing", "--json"), ("--only", "nothing", "--only", "nothing")),
    (("selftest", "--tiers", "-e", "sqlite", "--tier", "power"), ("--only", "nothing", "--only", "nothing")),
    (("show", "r.json", "--json", "--samples"), ()),
    (("schema", "run"), ()),
    (("show", "r.json", "-o", "x.csv"), ()),
    (("compare", "r.json", "--baseline", "slow:cache=8+sync=yes", "--metric", "p99", "--margin", "3%"), ()),
    (("compare", "r.json", "r.json", "--json"), ()),
    (("compare", "r.json", "--halves"), ()),
    (("check", "r.json", "--against", "r.json", "--strict", "--markdown"), ()),
    (("plot", "r.json", "--chart", "sweep:size", "--metric", "p50", "--phase", "read", "-o", "x.svg"), ()),
    (("plot", "r.json", "--tier", "process", "-p", "size=10", "-e", "quick", "-o", "charts"), ()),
    (("report", "r.json", "-o", "x.html", "--url", "https://example.org/x.html"), ("--no-such-flag",)),
    (("export", "r.json", "--format", "junit", "-o", "x.xml"), ()),
    (("history", "r.json", "--metric", "p99", "--margin", "3%"), ()),
    (("extrapolate", "r.json", "--to", "size=1000,2000", "--hold-out", "20", "--json"), ()),
    (("show", "r.json", "--json", "--prices", "prices.toml"), ()),
    (("list", "engines", "--crash", "r.json"), ()),
    (("crash", "sqlite", "--tier", "power", "--kills", "5", "--within", "9m", "--seed", "3"), ("no-such-engine",)),
    (
        ("http", "http://127.0.0.1:9/a?b=c", "-H", "a: b", "-n", "2", "--resolve", "a:1:127.0.0.1"),
        ("--no-such-flag", "--no-such-flag"),
    ),
    (("site", "r.json", "-o", "site"), ("--no-such-flag",)),
)
