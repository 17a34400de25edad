"""Proofs of durability tiers: the flushes of an engine that commits under strace, compared with a tier's promise."""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dyno import registry
from dyno.contracts.cell import Cell
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier, UsageError, Value
from dyno.contracts.passwords import mask_argument
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import closest_match, unknown_name_message
from dyno.contracts.suite import Suite
from dyno.host import interpreters
from dyno.host.process import nothing_left, own_session
from dyno.options import RunRequest
from dyno.runner import plan
from dyno.runner.rows import split_versions
from dyno.selftest import trace
from dyno.selftest.trace import TraceSummary

COMMITS = 100
"""Number of commits in each phase that proves a tier."""
TIMEOUT_SECONDS = 300
NAMED = 3
"""Maximum number of files listed in a reason."""
PROVEN = "proven"
DECLARED = "declared, not proven"
BROKEN = "broken"
NOTHING = "nothing promised"
FAILED = "failed"
"""The engine did not finish its commits. There is no verdict on the tier, and the command fails."""
WRONG = (BROKEN, FAILED)


@dataclass(frozen=True)
class TierClaim:
    """An engine's claim that it has a tier."""

    spec: EngineSpec
    engine: str
    """The engine as the user wrote it, with options."""
    tier: Tier
    cell: Cell | None
    """Cell of a plan to trace; None if the engine can't run here."""
    lacking: str = ""
    """Reason why the engine can't run here."""


@dataclass(frozen=True)
class TierProof:
    """Verdict on a claim, based on the trace of its commits."""

    engine: str
    tier: str
    verdict: str
    why: str
    settings: Mapping[str, Value | None]
    """Settings that give the tier: as the running engine reports them, or else as declared."""
    version: str | None = None
    seen: TraceSummary | None = None
    """Summary of the trace; None if there was no trace."""

    def data(self) -> dict[str, object]:
        """Returns plain JSON data, with counts in place of commits."""
        data = {name: value for name, value in asdict(self).items() if name != "seen"}
        seen = self.seen
        if seen is None:
            unknown = dict.fromkeys(("commits", "flushed", "written", "flushes", "writes"))
            return {**data, **unknown, "mapped": [], "unseen": []}
        return {
            **data,
            "commits": len(seen.commits),
            "flushed": seen.flushed,
            "written": seen.written,
            "flushes": dict(seen.flushes),
            "writes": dict(seen.writes),
            "mapped": list(seen.mapped),
            "unseen": list(seen.unseen),
        }


def claims(engines: Sequence[str] = (), tier: str | None = None) -> list[TierClaim]:
    """Returns a claim for each tier of each engine; without engines, of all that can be proven. Raises UsageError."""
    if tier is not None and tier not in [known.value for known in Tier]:
        raise UsageError(unknown_name_message("tier", tier, [known.value for known in Tier]))
    provable = _find_provable()
    if not engines:
        every = [claim for suite, spec in provable.values() for claim in _claims(suite, spec, spec.name, {})]
        return [claim for claim in every if tier in (None, claim.tier.value)]
    wanted: list[TierClaim] = []
    for text, named in split_versions(dict.fromkeys(engines)):
        if named.name not in provable:
            raise UsageError(
                f"engine {named.name} has no port of a suite that proves tiers; {closest_match(named.name, provable)}"
            )
        own = tier if named.tier is None else named.tier.value
        wanted += _claims(*provable[named.name], text, named.options, own)
    return wanted


def _find_provable() -> dict[str, tuple[Suite, EngineSpec]]:
    """Returns the engines that store something, by name, with the suite of their first port that proves tiers."""
    proving = {port: suite for suite in registry.suites() if suite.proof is not None for port in suite.ports}
    engines: dict[str, tuple[Suite, EngineSpec]] = {}
    for engine in registry.engines():
        port = next((port for port in engine.ports if port in proving), None)
        if port is not None and not engine.floor and (spec := engine.reduce_to_port(port)).tiers:
            engines[engine.name] = proving[port], spec
    return dict(sorted(engines.items()))


def _claims(
    suite: Suite, spec: EngineSpec, text: str, given: Mapping[str, object], tier: str | None = None
) -> Iterator[TierClaim]:
    """Yields an engine's claims: for the requested tier, or for all tiers that it has with these options."""
    options = spec.resolve(given)
    lacking = spec.explain_unavailability(options)
    if tier:
        tiers = [Tier(tier)]
    else:
        tiers = [t for t in spec.tiers if spec.refusal(t, options) is None]
    for each in tiers:
        if lacking and each in spec.tiers:
            yield TierClaim(spec, mask_argument(text), each, None, lacking)
            continue
        assert suite.proof is not None
        params: dict[str, list[Value]] = {}
        for proof in suite.proof.chain():
            params |= {name: [value] for name, value in proof.params.items()}
            params[proof.count] = [COMMITS + 1]
        made = plan.make(RunRequest(suite.name, [text], params=params, samples=1, tier=each.value))
        cell = next(cell for cell in made.cells if cell.engine == spec.name)
        yield TierClaim(spec, cell.asked, each, cell)


def proofs(wanted: Iterable[TierClaim], work: Path) -> Iterator[TierProof]:
    """Yields a proof of each claim in turn. Each has its own process, and its own directory below `work`."""
    unavailable = trace.explain_unavailability()
    for claim in wanted:
        if claim.cell is None or unavailable:
            yield _make_untraced_proof(claim, claim.lacking or unavailable or "")
        else:
            with tempfile.TemporaryDirectory(dir=work) as directory:
                # A server may run as another user, who must be able to pass through this directory.
                Path(directory).chmod(0o755)
                yield _proof(claim, claim.cell, Path(directory))


def _make_untraced_proof(claim: TierClaim, why: str, verdict: str = DECLARED) -> TierProof:
    return TierProof(claim.engine, claim.tier.value, verdict, why, claim.spec.tiers[claim.tier])


def _proof(claim: TierClaim, cell: Cell, directory: Path) -> TierProof:
    home = directory / "home"
    lines = directory / "trace"
    answer_file = directory / "answer"
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
    python = claim.spec.python(cell.options)
    if why := _trace(python, job, lines, answer_file):
        return _make_untraced_proof(claim, why, FAILED)
    answer = json.loads(answer_file.read_text())
    if "refused" in answer:
        return _make_untraced_proof(claim, sanitize(answer["refused"]))
    with lines.open(errors="replace") as text:
        seen = trace.summarize_trace(text, home, claim.spec.crashes.log)
    verdict, why = judge_tier(claim.tier, seen, answer["commits"])
    if verdict == PROVEN and claim.spec.listing.untested:
        # The traced service may have been a substitute for the real one, such as an emulator.
        verdict, why = DECLARED, claim.spec.listing.untested
    version = sanitize(answer["version"], keep="")
    settings = read_back(claim.spec.tiers[claim.tier], answer["settings"])
    return TierProof(claim.engine, claim.tier.value, verdict, why, settings, version, seen)


def read_back(declared: Mapping[str, Value], reported: Mapping[str, Value | None]) -> Mapping[str, Value | None]:
    """Returns the settings that give a tier: as the engine reports them, or as declared if it reports none of them.
    With some options an engine has only a part of the settings."""
    settings: dict[str, Value | None] = {}
    for name, value in reported.items():
        if name in declared:
            if isinstance(value, str):
                settings[name] = sanitize(value, keep="")
            else:
                settings[name] = value
            if value is None:
                settings[name] = declared[name]
    return settings or declared


def _trace(python: interpreters.Python, job: Mapping[str, object], lines: Path, answer: Path) -> str | None:
    """Runs the job in the interpreter `python` under strace. Returns None, or why it failed, in one line."""
    words = [*python.words("dyno.selftest.committer"), str(answer)]
    with nothing_left():
        try:
            done = subprocess.run(
                trace.command(lines, words),
                input=json.dumps(job) + "\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_SECONDS,
                **own_session(),
            )
        except subprocess.TimeoutExpired:
            return f"not done after {TIMEOUT_SECONDS} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return sanitize(": ".join([f"it ended with status {done.returncode}", *last]))
    if answer.exists():
        return None
    return "it ended with status 0 in the middle of its work"


def judge_tier(tier: Tier, seen: TraceSummary, commits: int = COMMITS) -> tuple[str, str]:
    """Returns the verdict on a tier and its reason. `commits`: number of acknowledged commits."""
    count, files = len(seen.commits), [Path(name).name for name in seen.mapped]
    mapped = ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED} more" if len(files) > NAMED else "")
    if tier is Tier.VOLATILE:
        unseen = mapped and not seen.written
        return NOTHING, f"no trace shows what it stores in its mapping of {mapped}" if unseen else ""
    if count != commits:
        return DECLARED, f"the trace shows {count} of {commits} commits"
    if tier is Tier.POWER:
        if seen.flushed == count:
            return PROVEN, ""
        if seen.unseen:
            return DECLARED, f"it uses {', '.join(seen.unseen)}, whose flushes no trace shows"
        return BROKEN, f"{count - seen.flushed} of {count} commits were acknowledged before they were flushed"
    # Flushed data has reached the kernel too, even if it was stored through a mapping.
    silent = sum(not commit.written and not commit.flushed for commit in seen.commits)
    if not silent:
        costly = sum(seen.flushes.values()) >= count
        return PROVEN, "it flushes as often as it commits, which costs more than is promised" if costly else ""
    if mapped or seen.unseen:
        ways = filter(None, (mapped and f"its mapping of {mapped}", *seen.unseen))
        return DECLARED, f"no trace shows what it writes through {', '.join(ways)}"
    return BROKEN, f"{silent} of {count} commits were acknowledged before anything was written"
