"""Durability tiers, proven: an engine commits under strace, and its flushes are held against what the tier promises.

What strace wrote is read in `trace`; how a proof is shown may not be put here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dyno import registry
from dyno.contracts.cell import Cell
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, UsageError, Value
from dyno.contracts.settings import closest_match, unknown
from dyno.contracts.suite import Suite
from dyno.host import interpreters
from dyno.host.process import die_with_parent, nothing_left
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.runner.rows import split_engines
from dyno.selftest import trace
from dyno.selftest.trace import Seen
from dyno.text.passwords import mask_argument
from dyno.text.sanitize import sanitize

COMMITS = 100
"""Of each phase that proves."""
TIMEOUT_SECONDS = 300
NAMED = 3
"""Files of an engine, in a reason."""
PROVEN, DECLARED, BROKEN, NOTHING = "proven", "declared, not proven", "broken", "nothing promised"
FAILED = "failed"
"""It did not come to the end of its commits: no verdict on the tier, and a failure."""
WRONG = (BROKEN, FAILED)


@dataclass(frozen=True)
class Claim:
    """A tier that an engine says to give."""

    spec: EngineSpec
    engine: str
    """As it was asked for."""
    tier: Tier
    cell: Cell | None
    """What is to be traced; None where it can't run here."""
    lacking: str = ""
    """Why it can't."""


@dataclass(frozen=True)
class Proof:
    """What a claim is worth, by what was seen of its commits."""

    engine: str
    tier: str
    verdict: str
    why: str
    settings: Mapping[str, Value | None]
    """Those that give the tier, read back from the engine where it ran and tells them."""
    version: str | None = None
    seen: Seen | None = None
    """None where no trace could be made."""

    def data(self) -> dict[str, Any]:
        """As plain JSON, with counts in place of the commits."""
        seen = self.seen or Seen()
        known = self.seen is not None
        return {
            **{name: value for name, value in asdict(self).items() if name != "seen"},
            "commits": len(seen.commits) if known else None,
            "flushed": seen.flushed if known else None,
            "written": seen.written if known else None,
            "flushes": dict(seen.flushes) if known else None,
            "writes": dict(seen.writes) if known else None,
            "mapped": list(seen.mapped),
            "unseen": list(seen.unseen),
        }


# -- which claims there are --------------------------------------------------------------------------------


def claims(engines: Sequence[str] = (), tier: str | None = None) -> list[Claim]:
    """Each tier of each engine that was asked for; for none, of all that can take part. Raises UsageError."""
    if tier is not None and tier not in [known.value for known in Tier]:
        raise UsageError(unknown("tier", tier, [known.value for known in Tier]))
    able = _provable()
    if not engines:
        every = [claim for suite, spec in able.values() for claim in _claims(suite, spec, spec.name, {})]
        return [claim for claim in every if tier in (None, claim.tier.value)]
    found: list[Claim] = []
    for text, named in split_engines(dict.fromkeys(engines)):
        if named.name not in able:
            raise UsageError(
                f"engine {named.name} has no port of a suite that proves tiers; {closest_match(named.name, able)}"
            )
        own = tier if named.tier is None else named.tier.value
        found += _claims(*able[named.name], str(text), named.options, own)
    return found


def _provable() -> dict[str, tuple[Suite, EngineSpec]]:
    """Each engine that stores something, by name, through the first of the ports that it declares by which a suite
    proves a tier."""
    proving = {port: suite for suite in registry.suites() if suite.proof is not None for port in suite.ports}
    found: dict[str, tuple[Suite, EngineSpec]] = {}
    for engine in registry.engines():
        port = next((port for port in engine.ports if port in proving), None)
        if port is not None and not engine.floor and (spec := engine.through(port)).tiers:
            found[engine.name] = proving[port], spec
    return dict(sorted(found.items()))


def _claims(
    suite: Suite, spec: EngineSpec, text: str, given: Mapping[str, Any], tier: str | None = None
) -> Iterator[Claim]:
    """Those of one engine: at the tier that was asked for, or at all that it gives with these options."""
    options = spec.resolve(given)
    lacking = spec.lacking(options)
    tiers = [Tier(tier)] if tier else [t for t in spec.tiers if spec.ask("refuse", t, options) is None]
    for each in tiers:
        if lacking and each in spec.tiers:
            yield Claim(spec, mask_argument(text), each, None, lacking)
            continue
        assert suite.proof is not None
        params: dict[str, list[Value]] = {}
        for proof in suite.proof.chain():
            params |= {name: [value] for name, value in proof.params.items()}
            params[proof.count] = [COMMITS + 1]
        made = plan.make(RunRequest(suite.name, [text], params=params, samples=1, tier=each.value))
        cell = next(cell for cell in made.cells if cell.engine == spec.name)
        yield Claim(spec, cell.asked, each, cell)


# -- the proof ---------------------------------------------------------------------------------------------


def proofs(wanted: Iterable[Claim], work: Path) -> Iterator[Proof]:
    """Traces one claim after the other, each in a process and a directory of its own below `work`."""
    unavailable = trace.unavailable()
    for claim in wanted:
        if claim.cell is None or unavailable:
            yield _declared(claim, claim.lacking or unavailable or "")
        else:
            with tempfile.TemporaryDirectory(dir=work) as place:
                # A server may run as a user who must get through here.
                Path(place).chmod(0o755)
                yield _proof(claim, claim.cell, Path(place))


def _declared(claim: Claim, why: str, verdict: str = DECLARED) -> Proof:
    """Of what no trace was made to its end."""
    return Proof(claim.engine, claim.tier.value, verdict, why, claim.spec.tiers[claim.tier])


def _proof(claim: Claim, cell: Cell, place: Path) -> Proof:
    home, lines, answer = place / "home", place / "trace", place / "answer"
    home.mkdir()
    job = {
        "suite": cell.suite,
        "engine": cell.engine,
        "tier": claim.tier.value,
        "options": dict(cell.options),
        "params": dict(cell.params),
        "home": str(home.resolve()),
        "commits": COMMITS,
    }
    python = str(claim.spec.interpreter() or sys.executable)
    if why := _traced(python, job, lines, answer):
        return _declared(claim, why, FAILED)
    told = json.loads(answer.read_text())
    if "refused" in told:
        return _declared(claim, sanitize(told["refused"]))
    with lines.open(errors="replace") as text:
        seen = trace.seen(text, home, claim.spec.log)
    verdict, why = judged(claim.tier, seen, told["commits"])
    if verdict == PROVEN and claim.spec.untested:
        # What ran here may be something else that answers like it.
        verdict, why = DECLARED, claim.spec.untested
    version = sanitize(told["version"], keep="")
    settings = read_back(claim.spec.tiers[claim.tier], told["settings"])
    return Proof(claim.engine, claim.tier.value, verdict, why, settings, version, seen)


def read_back(declared: Mapping[str, Value], told: Mapping[str, Any]) -> Mapping[str, Value | None]:
    """Those that give a tier, as the engine tells them. With its options it may have some of them only: where it
    tells any, those that it does not tell are none of its."""
    read = {
        name: sanitize(value, keep="") if isinstance(value, str) else value
        for name, value in told.items()
        if name in declared
    }
    return {name: declared[name] if value is None else value for name, value in read.items()} or declared


def _traced(python: str, job: Mapping[str, Any], lines: Path, answer: Path) -> str | None:
    """Has the job done in that interpreter under strace; returns why it was not, in one line."""
    words = [*interpreters.words(python, "dyno.selftest.committer"), str(answer)]
    parent = os.getpid()
    with nothing_left():
        try:
            done = subprocess.run(
                trace.command(lines, words),
                input=json.dumps(job) + "\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_SECONDS,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent),
            )
        except subprocess.TimeoutExpired:
            return f"not done after {TIMEOUT_SECONDS} s"
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return sanitize(f"it ended with status {done.returncode}{': ' + said[-1] if said else ''}")
    return None if answer.exists() else "it ended with status 0 in the middle of its work"


def _named(files: Sequence[str]) -> str:
    """'a, b, c and 20 more'."""
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return ", ".join(files[:NAMED]) + more


def judged(tier: Tier, seen: Seen, commits: int = COMMITS) -> tuple[str, str]:
    """The verdict on a tier by what its commits were seen to do, and the reason for it. `commits`: how many it had
    acknowledged."""
    count, mapped = len(seen.commits), _named([Path(name).name for name in seen.mapped])
    if tier is Tier.VOLATILE:
        return (
            NOTHING,
            f"no trace shows what it stores in its mapping of {mapped}" if mapped and not seen.written else "",
        )
    if count != commits:
        return DECLARED, f"the trace shows {count} of {commits} commits"
    if tier is Tier.POWER:
        if seen.flushed == count:
            return PROVEN, ""
        if seen.unseen:
            return DECLARED, f"it uses {', '.join(seen.unseen)}, whose flushes no trace shows"
        return BROKEN, f"{count - seen.flushed} of {count} commits were acknowledged before they were flushed"
    # What was flushed has reached the kernel, be it through a mapping.
    silent = sum(not commit.written and not commit.flushed for commit in seen.commits)
    if not silent:
        costly = sum(seen.flushes.values()) >= count
        return PROVEN, "it flushes as often as it commits, which costs more than is promised" if costly else ""
    if mapped or seen.unseen:
        how = ", ".join([*([f"its mapping of {mapped}"] if mapped else []), *seen.unseen])
        return DECLARED, f"no trace shows what it writes through {how}"
    return BROKEN, f"{silent} of {count} commits were acknowledged before anything was written"
