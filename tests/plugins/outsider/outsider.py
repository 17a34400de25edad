"""A suite with two phases: an external program executes and measures the first, and the second reads the suite's own
files. Of its test engines, `dd` runs the program of that name, and `timed` has Dyno read in both phases.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, PortSpec
from dyno.contracts.model import Caveat, Fact, Phase, Preset, Tier, Value, Wrong
from dyno.contracts.suite import Job, Operations, Report, Reported, Work, Workload

BLOCK, BLOCKS = 4096, 64


class Reader:
    """An engine without anything to open."""

    def __init__(self, home: Path, tier: Tier | None, options: Mapping[str, Value]) -> None:
        pass

    def close(self) -> None:
        pass

    def version(self) -> str:
        return "reads"

    def settings(self) -> Mapping[str, Value | None]:
        return {}

    def files(self) -> Iterable[Path]:
        return ()

    def caveats(self) -> Iterable[Caveat]:
        return ()


class Port:
    def __init__(self, engine: Reader) -> None:
        pass

    def read(self, place: tuple[Path, int]) -> tuple[bytes, int]:
        """The block, and the time in ns to open the file."""
        begin = time.perf_counter_ns()
        with place[0].open("rb") as file:
            opened = time.perf_counter_ns()
            file.seek(place[1] * BLOCK)
            return file.read(BLOCK), opened - begin


class Nothing(Port):
    def read(self, place: tuple[Path, int]) -> tuple[bytes, int]:
        return b"", 0


class OutsiderWorkload(Workload):
    def __init__(self, job: Job) -> None:
        self._job, self._engine = job, job.open(job.home)
        # A file beside the trial's directory, where no engine stores anything.
        self._file = job.home.with_suffix(".suite")
        self._file.write_bytes(b"".join(bytes([number]) * BLOCK for number in range(BLOCKS)))

    def prepare(self, phase: Phase) -> None:
        pass

    def connect(self) -> AbstractContextManager[Any]:
        return nullcontext(self._job.port(self._engine))

    def engine(self) -> Reader:
        return self._engine

    def release(self) -> None:
        pass

    def work(self, phase: Phase, port: Port, client: int, clients: int, round: int) -> Iterator[Work]:
        if phase.reported:
            yield Reported(self._tool, self._complete)
            return
        places = [(self._file, number) for number in range(client, BLOCKS, clients)]
        yield Operations(
            lambda _: (port.read,),
            places,
            lambda answers: self._right(places, answers),
            sizes=lambda answers: [len(block) for block, _ in answers],
            parts=lambda answers: {"open": [opened for _, opened in answers]},
        )

    def _tool(self, limit_ns: int) -> Report:
        begin = time.monotonic_ns()
        subprocess.run(
            ["dd", f"if={self._file}", f"of={self._job.home / 'copy'}", f"bs={BLOCK}"],
            check=True,
            capture_output=True,
        )
        elapsed_ns = time.monotonic_ns() - begin
        return Report(
            tool="dd 1.0",
            operations=BLOCKS,
            items=BLOCKS,
            elapsed_ns=elapsed_ns,
            bytes=BLOCKS * BLOCK,
            latencies=[(1_000, BLOCKS - 1), (50_000, 1)],
            by_kind={"read": [(1_000, BLOCKS)]},
            series=[{"from_ns": 0, "interval_ns": 10**9, "operations": BLOCKS, "p50_ns": 1_000, "p99_ns": 50_000}],
            facts={"copies": 1},
        )

    def _complete(self, report: Report) -> int:
        if (self._job.home / "copy").read_bytes() != self._file.read_bytes():
            raise Wrong("the copy differs")
        return report.operations

    def _right(self, places: Sequence[tuple[Path, int]], answers: Sequence[Any]) -> int:
        for (_, number), (block, _) in zip(places, answers, strict=False):
            if not self._job.spec.floor and block != bytes([number]) * BLOCK:
                raise Wrong(f"block {number} is another")
        return len(answers)

    def files(self) -> Iterable[Path]:
        return (self._file,)

    def place(self) -> Path:
        return self._file

    def trial_facts(self) -> Mapping[str, Fact]:
        return {"blocks": BLOCKS, "made by": "the suite"}

    def close(self) -> None:
        self._file.unlink()


class OutsiderSuite:
    name = "outsider"
    title = "files of the suite's own, read by an outside program and by engines"
    ports = ("outsider",)
    engines = ()
    params = ()
    presets = {"quick": Preset({}, samples=3, budget=5, timeout=60)}  # noqa: RUF012
    phases = (
        Phase("tool", "an outside program copies", "block", writes=False, checked="the copy", reported=True),
        Phase("read-cold", "read blocks", "op", False, "cold", "every block", parts=("open",), metric="bandwidth"),
    )
    layout = None
    charts = ()
    proof = None

    def workload(self, job: Job) -> Workload:
        return OutsiderWorkload(job)


def declare(name: str, port: type[Port], floor: bool = False) -> EngineSpec:
    return EngineSpec(
        name=name,
        title="Test engine: reads files",
        opener=Reader,
        ports={"outsider": PortSpec(port)},
        tiers={},
        clients="processes",
        floor=floor,
    )


SUITE = OutsiderSuite()
DD, TIMED, FLOOR = declare("dd", Port), declare("timed", Port), declare("outsider-null", Nothing, floor=True)
