"""What is crashed, and what comes of it: a row for each engine and tier, whose kills and cuts are counted, and each
kind of fault told once, by the smallest that was found.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.model import Tier, UsageError, Value
from dyno.crash import cuts, device, recorder
from dyno.crash.judgement import HANG, OK, PROMISES
from dyno.crash.kills import Failed, Kill, kills
from dyno.crash.store import Target
from dyno.crash.time_budget import Allowed
from dyno.host.force_remove import remove
from dyno.selftest import flushes
from dyno.selftest.flushes import Claim
from dyno.servers import leftover_processes
from dyno.text.sanitize import sanitize

HELD, BROKEN, UNCOVERED, UNJUDGED, NOTHING = "held", "broken", "not covered", "not judged", "nothing promised"
FAILED = "failed"
"""It could not do the work: no verdict on the tier, and a failure."""
WRONG = (BROKEN, FAILED)
LEAST_SELDOM = 3
"""That an engine must have done what it does seldom in a record, or else its cuts prove too little."""
KILLED = "killed"
KILLING = 0.3
"""The share of a row's time that its kills have, where it is cut as well."""
MOST_HANGS = 5
"""Of one record: each takes minutes."""

Tell = Callable[[str], object]


@dataclass(frozen=True)
class CrashRequest:
    """How much is to be done of each row."""

    kills: int
    states: int
    model: str
    seed: int
    traced: bool = True
    keep: Path | None = None
    device: str | None = None
    """A file system of `device.SYSTEMS`, on which it is cut too."""
    within: float | None = None
    """Seconds that all rows may take together: each has the same share, and what those before it left."""


@dataclass
class Tally:
    """Of one way to crash: how often, and with what outcome."""

    count: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Acknowledged commits, at most, in one of them."""
    seldom: int = 0

    def add(self, outcome: str, lost: int = 0) -> None:
        self.count += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.lost = max(self.lost, lost)

    def data(self) -> dict[str, Any]:
        return {"count": self.count, "outcomes": self.outcomes, "lost": self.lost, "seldom": self.seldom}


@dataclass
class CrashRow:
    """See `data`, and docs/crash.md."""

    claim: Claim
    model: str
    verdict: str = UNJUDGED
    why: str = ""
    version: str | None = None
    traced: str | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    faults: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """By the way to crash and the outcome: that which lost the least."""
    notes: list[str] = field(default_factory=list)
    settings: Mapping[str, Value | None] | None = None
    system: str | None = None
    """The file system of the device, where there was one."""

    def heard(self, told: Sequence[str]) -> None:
        """What the engine says that it is, and which of its settings give the tier."""
        for line in told:
            word, _, rest = line.partition(" ")
            if word == "opened":
                self.version = sanitize(rest, keep="")
            elif word == "settings":
                self.settings = flushes.read_back(self.claim.spec.tiers[self.claim.tier], json.loads(rest))

    def data(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "engine": self.claim.engine,
            "tier": self.claim.tier.value,
            "settings": dict(self.settings or self.claim.spec.tiers[self.claim.tier]),
            "version": self.version,
            "verdict": self.verdict,
            "why": self.why,
            "traced": self.traced,
            **{way: self.tallies[way].data() if way in self.tallies else None for way in (KILLED, *cuts.WAYS)},
            "model": self.model,
            "system": self.system,
            "faults": list(self.faults.values()),
            "notes": self.notes,
        }

    def tally(self, way: str) -> Tally:
        return self.tallies.setdefault(way, Tally())


def claims(engines: Sequence[str], tier: str | None) -> list[Claim]:
    """Each tier that promises anything, of each engine that was asked for, those without a server first. Raises
    UsageError."""
    found = flushes.claims(engines, tier)
    if tier is None:
        found = [claim for claim in found if PROMISES[claim.tier]]
    if not found:
        raise UsageError("there is nothing to crash: no such engine promises anything")
    return found if engines else sorted(found, key=lambda claim: (claim.spec.server is not None, claim.engine))


def rows(wanted: Sequence[Claim], asked: CrashRequest, work: Path, fast: Path, tell: Tell) -> Iterator[CrashRow]:
    """One row after the other, each in a directory of its own below `work`; `fast` is one in which states are built,
    in memory where there is such a place."""
    allowed = Allowed.seconds(asked.within)
    for number, claim in enumerate(wanted, 1):
        row, place, states = CrashRow(claim, asked.model), work / f"{number}", fast / f"{number}"

        def doing(what: str, number: int = number, claim: Claim = claim) -> None:
            tell(f"{number} of {len(wanted)}: {claim.engine}, tier {claim.tier.value}: {what}")

        for each in (place, states):
            each.mkdir()
            # A server may run as a user who must get through here.
            each.chmod(0o755)
        try:
            _fill(row, asked, place, states, doing, allowed.part(1 / (len(wanted) - number + 1)))
        except Failed as error:
            row.verdict, row.why = FAILED, sanitize(str(error), keep="")
        finally:
            for each in (place, states):
                leftover_processes.clear(each)
                remove(each)
        yield row


def _fill(row: CrashRow, asked: CrashRequest, place: Path, states: Path, tell: Tell, allowed: Allowed) -> None:
    claim = row.claim
    if (why := _unjudged(claim)) is not None:
        row.why = why
        return
    target = _target(claim, asked.seed)
    if asked.traced:
        tell("system calls")
        (proof,) = flushes.proofs([claim], place)
        row.traced = proof.verdict
    cut = asked.states > 0 and "cut" in PROMISES[claim.tier]
    if asked.kills:
        _kill(row, target, place / "kills", asked, tell, allowed.part(KILLING if cut else 1))
    if cut:
        mounted = asked.device is not None
        _cut(row, target, place / "cuts", states / "cuts", asked, tell, allowed.part(0.5 if mounted else 1))
        if mounted:
            _mount(row, target, place / "device", states / "device", asked, tell, allowed)
    row.notes += _fewer(row, asked)
    _conclude(row, asked)


def _unjudged(claim: Claim) -> str | None:
    """Why nothing can be said of it."""
    if claim.cell is None:
        return claim.lacking
    if claim.spec.untested:
        return claim.spec.untested
    proof = registry.suite(claim.cell.suite).proof
    if proof is None or proof.history is None:
        return f"the suite {claim.cell.suite} has no history that a crash could be judged by"
    return None


def _target(claim: Claim, seed: int) -> Target:
    cell = claim.cell
    assert cell is not None
    return Target(cell.suite, cell.engine, claim.tier.value, dict(cell.options), dict(cell.params), seed)


def _kill(row: CrashRow, target: Target, place: Path, asked: CrashRequest, tell: Tell, allowed: Allowed) -> None:
    place.mkdir()
    place.chmod(0o755)
    tally = row.tally(KILLED)

    def keep(kill: Kill) -> None:
        _fault(row, asked, KILLED, kill.judgement.outcome, place / "home", [kill.words], kill)

    for number, kill in enumerate(kills(target, place / "home", asked.kills, asked.seed, keep), 1):
        tally.add(kill.judgement.outcome, kill.judgement.lost)
        tally.seldom += kill.seldom
        row.heard(kill.told)
        tell(f"{number} of {asked.kills} kills")
        if allowed.over:
            return


def _cut(
    row: CrashRow, target: Target, place: Path, states: Path, asked: CrashRequest, tell: Tell, allowed: Allowed
) -> None:
    if (why := recorder.unavailable()) is not None:
        row.notes.append(f"not cut: {why}")
        return
    for each in (place, states):
        each.mkdir()
        each.chmod(0o755)
    tell("its changes to its files are recorded")
    with cuts.Bench(target, place, states) as bench:
        made = bench.workload()
        row.heard(made.told)
        row.tally(cuts.WHEN_RUNNING).seldom = made.seldom
        row.notes += [f"refused {call}: it had to do without" for call in made.record.refused]
        row.notes += [f"not in the record: {what}" for what in made.record.unseen]
        _judge(row, bench, cuts.cuts(bench, made, asked.model, asked.states, asked.seed, allowed), asked, tell)


def _mount(
    row: CrashRow, target: Target, place: Path, states: Path, asked: CrashRequest, tell: Tell, allowed: Allowed
) -> None:
    """Cut on a file system of the kernel's."""
    assert asked.device is not None
    for each in (place, states):
        each.mkdir()
        each.chmod(0o755)
    tell(f"what it has {asked.device} write to a disk is recorded")
    row.system = asked.device
    with device.Device(target, place, states, asked.device) as bench:
        made = bench.workload()
        row.heard(made.told)
        row.tally(cuts.WHEN_MOUNTED).seldom = made.seldom
        _judge(row, bench, device.cuts(bench, made, asked.states, asked.seed, allowed), asked, tell)
    row.notes += _compared(row, asked)


def _fewer(row: CrashRow, asked: CrashRequest) -> Iterator[str]:
    """What the time did not allow."""
    wanted = {KILLED: asked.kills, cuts.WHEN_RUNNING: asked.states, cuts.WHEN_MOUNTED: asked.states}
    cut = {way: row.tallies[way].count for way in wanted if way in row.tallies}
    if asked.within is not None and (fewer := [way for way, count in cut.items() if count < wanted[way]]):
        told = ", ".join(f"{way} {cut[way]:,} of {wanted[way]:,}" for way in fewer)
        yield f"as often as the time allowed: {told}"


def _compared(row: CrashRow, asked: CrashRequest) -> Iterator[str]:
    """Whether the file system ever showed what the model allows, and the other way round."""
    allowed, shown = (
        {outcome for outcome in row.tally(way).outcomes if outcome != OK}
        for way in (cuts.WHEN_RUNNING, cuts.WHEN_MOUNTED)
    )
    if both := sorted(allowed & shown):
        yield f"{asked.device} shows what the model {asked.model} allows: {', '.join(both)}"
    if rest := sorted(allowed - shown):
        yield f"the model {asked.model} allows what {asked.device} never showed here: {', '.join(rest)}"
    if beyond := sorted(shown - allowed):
        yield f"{asked.device} shows what the model {asked.model} never did here: {', '.join(beyond)}"


def _judge(row: CrashRow, bench: cuts.Bench, found: Iterator[cuts.Cut], asked: CrashRequest, tell: Tell) -> None:
    """Counts them, and notes the first of each kind of fault by its smallest."""
    hung = 0
    for number, cut in enumerate(found, 1):
        row.tally(cut.when).add(cut.judgement.outcome, cut.judgement.lost)
        tell(f"{number} states after a cut")
        if not cut.judgement.sound and (cut.when, cut.judgement.outcome) not in row.faults:
            least = cuts.smallest(bench, cut)
            # As it was before it was opened.
            with suppress(cuts.Unreadable):
                bench.build(least.state)
            _fault(row, asked, cut.when, cut.judgement.outcome, bench.home, bench.words(least.state), least)
        hung += cut.judgement.outcome == HANG
        if hung == MOST_HANGS:
            row.notes.append(f"not cut any more after {hung} states in which it hung")
            return


def _fault(
    row: CrashRow, asked: CrashRequest, way: str, outcome: str, home: Path, words: list[str], found: Kill | cuts.Cut
) -> None:
    """Notes the first of its kind, with its store where these are kept."""
    if (way, outcome) in row.faults:
        return
    kept: Path | None = None
    if asked.keep is not None:
        name = row.claim.engine.replace(":", "-").replace("/", "-")
        kept = _free(asked.keep / f"{name}-{row.claim.tier.value}-{way}-{outcome}")
        with suppress(shutil.Error):
            # What can't be copied is a socket.
            shutil.copytree(home, kept, symlinks=True)
    row.faults[way, outcome] = {
        "when": way,
        "outcome": outcome,
        "why": sanitize(found.judgement.why, keep=""),
        "acknowledged": found.acknowledged,
        "begun": found.begun,
        "held": found.judgement.held,
        "witness": [sanitize(line, keep="") for line in words],
        "directory": None if kept is None else str(kept),
    }


def _free(path: Path) -> Path:
    """The path, or the first of path-2, path-3, ... that does not exist."""
    names = itertools.chain([path], (path.with_name(f"{path.name}-{number}") for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _conclude(row: CrashRow, asked: CrashRequest) -> None:
    """The verdict by what was found."""
    tier = row.claim.tier
    if tier is Tier.VOLATILE:
        row.verdict = NOTHING
        return
    bad = {way: tally.count - tally.outcomes.get(OK, 0) for way, tally in row.tallies.items()}
    row.why = "; ".join(_said(way, tally) for way, tally in row.tallies.items() if bad[way])
    if any(count for way, count in bad.items() if way != cuts.WHEN_BORN):
        row.verdict = BROKEN
        return
    # Of a store that was made a moment ago no tier promises anything: it is told.
    row.verdict = HELD
    if why := _uncovered(row, asked):
        row.verdict, row.why = UNCOVERED, "; ".join(filter(None, [why, row.why]))


def _uncovered(row: CrashRow, asked: CrashRequest) -> str:
    """What its crashes did not show, though they found nothing."""
    if "cut" in PROMISES[row.claim.tier] and not row.tallies.get(cuts.WHEN_RUNNING, Tally()).count:
        return "the power was never cut" if asked.states else "the power was not to be cut"
    if any(note.startswith("not in the record") for note in row.notes):
        return "a part of what it did to its files is not in the record"
    seldom = row.claim.spec.seldom
    if seldom is None:
        return "nobody has said what it does seldom (checkpoints, new logs), so that no crash was sure to hit it"
    if seldom.do is None:
        return ""
    way = cuts.WHEN_RUNNING if cuts.WHEN_RUNNING in row.tallies else KILLED
    if row.tallies.get(way, Tally()).seldom < LEAST_SELDOM:
        return f"it did what it does seldom ({seldom.what}) fewer than {LEAST_SELDOM} times"
    return ""


def _said(way: str, tally: Tally) -> str:
    """'cut: 38 lost (1 at most), 2 corrupt of 189'."""
    parts = [
        f"{count} {outcome}" + (f" ({tally.lost} at most)" if outcome == "lost" else "")
        for outcome, count in tally.outcomes.items()
        if outcome != OK
    ]
    return f"{way}: {', '.join(parts)} of {tally.count}"
