"""Crash tests of engines: a row for each engine and tier with counts of its kills and cuts, and the smallest witness
of each kind of fault."""

import itertools
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dyno import registry
from dyno.contracts.cell import Cell
from dyno.contracts.model import Tier, UsageError, Value
from dyno.contracts.sanitize import sanitize
from dyno.crash import cuts, device, recorder
from dyno.crash.cuts import part_of
from dyno.crash.model import draws
from dyno.crash.processes import Kill, WorkloadFailed, kills
from dyno.crash.store import HANG, OK, PROMISES, CrashTarget, Judgement
from dyno.host.force_remove import remove
from dyno.selftest import flushes
from dyno.selftest.flushes import TierClaim
from dyno.servers import leftover_processes

HELD = "held"
BROKEN = "broken"
UNCOVERED = "not covered"
UNJUDGED = "not judged"
NOTHING = "nothing promised"
FAILED = "failed"
"""The engine could not run the workload. There is no verdict on the tier, and the command fails."""
WRONG = (BROKEN, FAILED)
LEAST_MAINTENANCE = 3
"""Minimum number of times that an engine must do its maintenance for a verdict of `held`."""
KILLED = "killed"
KILLING_SHARE = 0.3
"""Share of a row's time for its kills if the row also has cuts."""
MOST_HANGS = 5
"""Limit of hangs for each record, since each takes minutes."""

Progress = Callable[[str], object]


@dataclass(frozen=True)
class CrashRequest:
    """Number and kind of crashes for each row."""

    kills: int
    states: int
    model: str
    seed: int
    traced: bool = True
    keep: Path | None = None
    """Directory for a copy of the broken store of each kind of fault."""
    device: str | None = None
    """File system for cuts of a disk: a key of `device.SYSTEMS`."""
    within: float | None = None
    """Time limit in seconds for all rows together. Rows share it equally; time that a row doesn't use passes to later
    ones."""


@dataclass
class CrashTally:
    """Results of one way to crash."""

    count: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Maximum number of acknowledged commits lost in one crash."""
    seldom: int = 0
    """Number of times that the engine did its maintenance."""

    def add(self, outcome: str, lost: int = 0) -> None:
        self.count += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.lost = max(self.lost, lost)

    def __str__(self) -> str:
        """Returns for example '38 lost (1 at most), 2 corrupt of 189'."""
        most = {"lost": f" ({self.lost} at most)"}
        bad = [f"{n} {outcome}{most.get(outcome, '')}" for outcome, n in self.outcomes.items() if outcome != OK]
        return f"{', '.join(bad)} of {self.count}"


@dataclass
class CrashRow:
    """Result for an engine at a tier. docs/reference/crash-findings.md documents `data`."""

    claim: TierClaim
    model: str
    verdict: str = UNJUDGED
    why: str = ""
    version: str | None = None
    traced: str | None = None
    tallies: dict[str, CrashTally] = field(default_factory=dict)
    faults: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)
    """First fault of each way to crash and outcome, shrunk."""
    notes: list[str] = field(default_factory=list)
    settings: Mapping[str, Value | None] | None = None
    system: str | None = None
    """File system of the device, for cuts of a disk."""

    def read(self, way: str, lines: Sequence[str]) -> None:
        """Sets the version and settings, and counts maintenance, from the lines of a committing process."""
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "opened":
                self.version = sanitize(rest, keep="")
            elif word == "settings":
                self.settings = flushes.read_back(self.claim.spec.tiers[self.claim.tier], json.loads(rest))
            elif word == "seldom":
                self.tally(way).seldom += 1

    def data(self) -> dict[str, object]:
        """Returns the row as plain JSON data."""
        return {
            "engine": self.claim.engine,
            "tier": self.claim.tier.value,
            "settings": dict(self.settings or self.claim.spec.tiers[self.claim.tier]),
            "version": self.version,
            "verdict": self.verdict,
            "why": self.why,
            "traced": self.traced,
            **{way: asdict(self.tallies[way]) if way in self.tallies else None for way in (KILLED, *cuts.WAYS)},
            "model": self.model,
            "system": self.system,
            "faults": list(self.faults.values()),
            "notes": self.notes,
        }

    def tally(self, way: str) -> CrashTally:
        return self.tallies.setdefault(way, CrashTally())


def claims(engines: Sequence[str], tier: str | None) -> list[TierClaim]:
    """Returns a claim for each tier of the requested engines that promises anything.

    Without requested engines, returns those of all engines, and those without a server come first. Raises UsageError.
    """
    wanted = flushes.claims(engines, tier)
    if tier is None:
        wanted = [claim for claim in wanted if PROMISES[claim.tier]]
    if not wanted:
        raise UsageError("there is nothing to crash: no such engine promises anything")
    if engines:
        return wanted
    return sorted(wanted, key=lambda claim: (claim.spec.server is not None, claim.engine))


def rows(
    wanted: Sequence[TierClaim], request: CrashRequest, work: Path, fast: Path, progress: Progress
) -> Iterator[CrashRow]:
    """Yields the rows one after the other.

    Stores are below `work`, on a disk. States are built below `fast`, in memory if possible.
    """
    if request.within is None:
        deadline = math.inf
    else:
        deadline = time.monotonic() + request.within
    for number, claim in enumerate(wanted, 1):
        prefix = f"{number} of {len(wanted)}: {claim.engine}, tier {claim.tier.value}: "
        row = _Crasher(claim, request, work / f"{number}", fast / f"{number}", prefix, progress)
        yield row.run(part_of(deadline, 1 / (len(wanted) - number + 1)))


class _Crasher:
    """Crashes an engine at a tier and fills its row."""

    def __init__(
        self, claim: TierClaim, request: CrashRequest, place: Path, fast: Path, prefix: str, progress: Progress
    ) -> None:
        self._claim = claim
        self._request = request
        self._place = place
        self._fast = fast
        self._row = CrashRow(claim, request.model)
        self._tell: Progress = lambda text: progress(prefix + text)

    def run(self, deadline: float) -> CrashRow:
        row = self._row
        cell = self._claim.cell
        untested = self._claim.spec.listing.untested
        proof = None
        if cell is not None:
            proof = registry.suite(cell.suite).proof
        try:
            _make(self._place, self._fast)
            if cell is None or untested:
                row.why = self._claim.lacking or untested
            elif proof is None or proof.history is None:
                row.why = f"the suite {cell.suite} has no history to judge a crash by"
            else:
                self._crash(cell, deadline)
        except WorkloadFailed as error:
            row.verdict, row.why = FAILED, sanitize(str(error), keep="")
        finally:
            for directory in (self._place, self._fast):
                leftover_processes.clear(directory)
                remove(directory)
        return row

    def _crash(self, cell: Cell, deadline: float) -> None:
        row = self._row
        claim = self._claim
        request = self._request
        target = CrashTarget(
            cell.suite, cell.engine, claim.tier.value, dict(cell.options), dict(cell.params), request.seed
        )
        if request.traced:
            self._tell("system calls")
            (proof,) = flushes.proofs([claim], self._place)
            row.traced = proof.verdict
        is_cut = request.states > 0 and "cut" in PROMISES[claim.tier]
        if request.kills:
            share = 1.0
            if is_cut:
                share = KILLING_SHARE
            self._kill(target, part_of(deadline, share))
        if is_cut:
            self._cut(target, part_of(deadline, 1 if request.device is None else 0.5))
            if request.device is not None:
                self._cut_device(target, request.device, deadline)
        if request.within is not None:
            wanted = {KILLED: request.kills, cuts.WHEN_RUNNING: request.states, cuts.WHEN_MOUNTED: request.states}
            counts = {way: row.tallies[way].count for way in wanted if way in row.tallies}
            fewer = [f"{way} {count:,} of {wanted[way]:,}" for way, count in counts.items() if count < wanted[way]]
            if fewer:
                row.notes.append(f"as often as the time allowed: {', '.join(fewer)}")
        self._conclude()

    def _kill(self, target: CrashTarget, deadline: float) -> None:
        place, count = self._place / "kills", self._request.kills
        _make(place)
        tally = self._row.tally(KILLED)

        def keep(kill: Kill) -> None:
            self._add_fault(KILLED, place / "home", [kill.words], kill.judgement, kill.acknowledged, kill.begun)

        for number, kill in enumerate(kills(target, place / "home", count, self._request.seed, keep), 1):
            tally.add(kill.judgement.outcome, kill.judgement.lost)
            self._row.read(KILLED, kill.lines)
            self._tell(f"{number} of {count} kills")
            if time.monotonic() >= deadline:
                return

    def _cut(self, target: CrashTarget, deadline: float) -> None:
        row, request = self._row, self._request
        if (why := recorder.explain_unavailability()) is not None:
            row.notes.append(f"not cut: {why}")
            return
        place, states = self._place / "cuts", self._fast / "cuts"
        _make(place, states)
        self._tell("recording its changes to its files")
        with closing(cuts.Bench(target, place, states)) as bench:
            record, lines = bench.workload()
            row.read(cuts.WHEN_RUNNING, lines)
            row.notes += [f"refused {call}: the engine had to do without" for call in record.refused]
            row.notes += [f"not in the record: {what}" for what in record.unseen]
            self._judge(bench, cuts.cuts(bench, record, request.model, request.states, request.seed, deadline))

    def _cut_device(self, target: CrashTarget, system: str, deadline: float) -> None:
        row, request = self._row, self._request
        place, states = self._place / "device", self._fast / "device"
        _make(place, states)
        self._tell(f"recording what {system} writes to a disk")
        row.system = system
        with closing(device.DeviceBench(target, place, states, system)) as bench:
            record, lines = bench.workload()
            row.read(cuts.WHEN_MOUNTED, lines)
            # The model is irrelevant: all models agree about the pages of a single file.
            states_drawn = draws(record, "ext4", request.seed, request.states)
            self._judge(bench, cuts.judgements(bench, cuts.WHEN_MOUNTED, states_drawn, deadline))
        ways = (cuts.WHEN_RUNNING, cuts.WHEN_MOUNTED)
        allowed, shown = ({outcome for outcome in row.tally(way).outcomes if outcome != OK} for way in ways)
        comparisons = (
            (allowed & shown, f"{system} shows what the model {request.model} allows"),
            (allowed - shown, f"the model {request.model} allows what {system} never showed here"),
            (shown - allowed, f"{system} shows what the model {request.model} never did here"),
        )
        row.notes += [f"{text}: {', '.join(sorted(outcomes))}" for outcomes, text in comparisons if outcomes]

    def _judge(self, bench: cuts.Bench, judged: Iterator[cuts.Cut]) -> None:
        """Counts the outcomes, and shrinks the first fault of each kind."""
        row, hangs = self._row, 0
        for number, cut in enumerate(judged, 1):
            row.tally(cut.when).add(cut.judgement.outcome, cut.judgement.lost)
            self._tell(f"{number} states after a cut")
            if not cut.judgement.sound and (cut.when, cut.judgement.outcome) not in row.faults:
                least = cuts.smallest(bench, cut)
                # Judging changed the store, so build the state again before it is copied.
                with suppress(cuts.Unreadable):
                    bench.build(least.state)
                state, witness = least.state, bench.words(least.state)
                self._add_fault(cut.when, bench.home, witness, least.judgement, state.acknowledged, state.begun)
            hangs += cut.judgement.outcome == HANG
            if hangs == MOST_HANGS:
                row.notes.append(f"no more cuts after {hangs} states in which it hung")
                return

    def _add_fault(
        self, way: str, home: Path, words: list[str], judgement: Judgement, acknowledged: int, begun: int
    ) -> None:
        """Records the first fault of its kind, and copies its store if requested."""
        outcome = judgement.outcome
        if (way, outcome) in self._row.faults:
            return
        copy: Path | None = None
        if self._request.keep is not None:
            engine = self._claim.engine.replace(":", "-").replace("/", "-")
            path = self._request.keep / f"{engine}-{self._claim.tier.value}-{way}-{outcome}"
            paths = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
            copy = next(path for path in paths if not os.path.lexists(path))
            # copytree raises this error for sockets, after it has copied all other files.
            with suppress(shutil.Error):
                shutil.copytree(home, copy, symlinks=True)
        self._row.faults[way, outcome] = {
            "when": way,
            "outcome": outcome,
            "why": sanitize(judgement.why, keep=""),
            "acknowledged": acknowledged,
            "begun": begun,
            "held": judgement.held,
            "witness": [sanitize(line, keep="") for line in words],
            "directory": None if copy is None else str(copy),
        }

    def _conclude(self) -> None:
        """Sets the verdict. Faults at birth don't break a tier: it promises nothing for a store being created."""
        row = self._row
        if self._claim.tier is Tier.VOLATILE:
            row.verdict = NOTHING
            return
        bad = {way: tally for way, tally in row.tallies.items() if tally.count > tally.outcomes.get(OK, 0)}
        row.why = "; ".join(f"{way}: {tally}" for way, tally in bad.items())
        if bad.keys() - {cuts.WHEN_BORN}:
            row.verdict = BROKEN
        elif why := self._explain_unproven_tier():
            row.verdict, row.why = UNCOVERED, "; ".join(filter(None, [why, row.why]))
        else:
            row.verdict = HELD

    def _explain_unproven_tier(self) -> str:
        """Returns why the crashes don't prove the tier although all were sound; empty if they do."""
        row, claim = self._row, self._claim
        if "cut" in PROMISES[claim.tier] and not row.tallies.get(cuts.WHEN_RUNNING, CrashTally()).count:
            if self._request.states:
                return "the power was never cut"
            return "the power was not to be cut"
        if any(note.startswith("not in the record") for note in row.notes):
            return "a part of its changes to its files is not in the record"
        maintenance = claim.spec.crashes.maintenance
        if maintenance is None:
            return "its declaration has no maintenance (checkpoint, new log), so crashes may have missed it"
        way = KILLED
        if cuts.WHEN_RUNNING in row.tallies:
            way = cuts.WHEN_RUNNING
        if maintenance.do is not None and row.tallies.get(way, CrashTally()).seldom < LEAST_MAINTENANCE:
            return f"its maintenance ({maintenance.what}) ran fewer than {LEAST_MAINTENANCE} times"
        return ""


def _make(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir()
        # A server may run as another user, who must be able to pass through this directory.
        directory.chmod(0o755)
