"""What a published experiment says of its figures, as data: each statement, and the claims that it comes down to.

A claim is about rows of a run, and can be checked on another machine: that one contender is faster than others, or
smaller, or fails now and then. It is checked in `stats.findings`; nothing may be put here that reads a run, and
nothing that knows a suite. docs/published-experiments.md says how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyno.contracts.model import UsageError, Value
from dyno.contracts.settings import unknown

MORE, LESS = ("faster", "more", "fastest", "most"), ("slower", "less", "slowest", "least")
ALL = ("fastest", "slowest", "most", "least")
"""Of one against all others."""
ABOUT, FAILS = "about", "fails"
RELATIONS = (*MORE, *LESS, ABOUT, FAILS)
OF_ITSELF = {"than_params", "than_phase", "than_fact"}
"""In which one side differs from the other, so that both may be the same contender."""
WITHIN = 0.25
"""By how much a ratio may be off that is said to be about so much, where the claim does not say."""


@dataclass(frozen=True)
class Contender:
    """What took part in a published experiment, and what takes its place here."""

    name: str
    """As the statements have it."""
    published_as: str
    """With its version."""
    engine: str
    """As a run names it, its options in alphabetical order."""
    stand_in: str = ""
    """The system measured here if it is another one; empty if it is the published one or its successor."""

    @property
    def title(self) -> str:
        """'MySQL (here MariaDB)': every figure of a stand-in is shown under this."""
        return f"{self.name} (here {self.stand_in})" if self.stand_in else self.name


@dataclass(frozen=True)
class Claim:
    """That rows of a run are in some relation to others of the same phase."""

    of: str
    """An engine as a run names it."""
    relation: str
    than: tuple[str, ...]
    """The others, which may be the same engine with other parameters."""
    phases: tuple[str, ...]
    params: Mapping[str, tuple[Value, ...]]
    """Of both sides: the values of which one has to be a row's; any, where a parameter is not here."""
    of_params: Mapping[str, Value]
    than_params: Mapping[str, Value]
    """Of one side alone, in which the two differ; all else is the same for both."""
    metric: str
    """What is compared: a metric of `stats.metric`, or the name of a fact."""
    fact: bool
    low: float
    """Bounds of the ratio of the one to the other: of speeds, where more is better, or of facts. Of `fails`, low is
    the least share of the trials."""
    high: float
    across_tiers: str = ""
    """Why rows of two tiers may be in its ratios, of phases that write nothing; empty where they may not."""
    across_tools: str = ""
    """Why figures of two outside tools may be in its ratios; empty where they may not."""
    than_phase: str = ""
    """Of the other row, where that is not the phase of the one."""
    than_fact: str = ""
    """Of the other side, where that is not the fact of the one."""


@dataclass(frozen=True)
class Finding:
    """A statement, and the claims that all have to hold for it to be confirmed."""

    claims: tuple[Claim, ...]
    says: str = ""
    """In the words of the published text."""
    shows: str = ""
    """In our words, of what a published table shows without saying it; there is either of the two."""
    read_as: str = ""
    """How its words are taken, where they leave that open."""
    unchecked: str = ""
    """Why there is no claim."""


def contenders(data: Sequence[Mapping[str, str]]) -> tuple[Contender, ...]:
    """Of the tables of a file."""
    return tuple(Contender(**each) for each in data)


def findings(data: Sequence[Mapping[str, Any]], known: Mapping[str, str], where: str) -> tuple[Finding, ...]:
    """Of the tables of a file; `known`: each contender's engine by its name. Raises UsageError for one that can't be
    checked as it is written."""
    return tuple(_finding(dict(each), known, f"{where}: finding {at}") for at, each in enumerate(data, 1))


def _finding(data: dict[str, Any], known: Mapping[str, str], where: str) -> Finding:
    claims = tuple(_claim(dict(each), known, where) for each in data.pop("claims", ()))
    try:
        found = Finding(claims=claims, **data)
    except TypeError as error:
        raise UsageError(f"{where}: {error}") from None
    if bool(found.says) == bool(found.shows):
        raise UsageError(f"{where}: it has either what the text says, or what a table shows")
    if bool(claims) == bool(found.unchecked):
        raise UsageError(f"{where}: it has either claims, or says by unchecked why not")
    return found


def _claim(data: dict[str, Any], known: Mapping[str, str], where: str) -> Claim:
    relation, of = data.pop("relation", None), data.pop("of", None)
    if relation not in RELATIONS:
        raise UsageError(unknown(f"{where}: relation", relation, RELATIONS))
    than = data.pop("than", None) or _others(of, relation, not OF_ITSELF.isdisjoint(data), known)
    for name in (of, *than):
        if name not in known:
            raise UsageError(unknown(f"{where}: contender", name, known))
    phases = data.pop("phases", ())
    if bool(phases) == (relation == FAILS):
        raise UsageError(f"{where}: phases are wanted for each relation but {FAILS}")
    if not than and relation != FAILS:
        raise UsageError(f"{where}: than is wanted for {relation}")
    low, high = _bounds(relation, data, where)
    fact, metric = data.pop("fact", None), data.pop("metric", "throughput")
    claim = Claim(
        of=known[of],
        relation=relation,
        than=tuple(known[name] for name in than),
        phases=tuple(phases),
        params={name: _values(value) for name, value in data.pop("params", {}).items()},
        of_params=data.pop("of_params", {}),
        than_params=data.pop("than_params", {}),
        metric=fact or metric,
        fact=fact is not None,
        low=low,
        high=high,
        across_tiers=data.pop("across_tiers", ""),
        across_tools=data.pop("across_tools", ""),
        than_phase=data.pop("than_phase", ""),
        than_fact=data.pop("than_fact", ""),
    )
    if data:
        raise UsageError(f"{where}: {', '.join(data)} is not known of a claim by {relation}")
    return claim


def _others(of: str, relation: str, of_itself: bool, known: Mapping[str, str]) -> tuple[str, ...]:
    """Where a claim does not say: itself, where the two sides differ in something else; or all others."""
    if of_itself:
        return (of,)
    return tuple(name for name in known if name != of) if relation in ALL else ()


def _bounds(relation: str, data: dict[str, Any], where: str) -> tuple[float, float]:
    """From 'by', 'at_most', 'ratio' and 'within'; of `fails` from 'at_least'."""
    if relation == FAILS:
        share = data.pop("at_least", None)
        if not isinstance(share, float) or not 0 < share < 1:
            raise UsageError(f"{where}: at_least is wanted, a share of the trials between 0 and 1")
        return share, 1.0
    if relation == ABOUT:
        ratio, within = data.pop("ratio", None), data.pop("within", WITHIN)
        if not isinstance(ratio, (int, float)) or ratio <= 0 or not 0 < within < 1:
            raise UsageError(f"{where}: ratio is wanted, over 0, and within, between 0 and 1")
        return ratio * (1 - within), ratio * (1 + within)
    least, most = data.pop("by", 1), data.pop("at_most", math.inf)
    if not 1 <= least < most:
        raise UsageError(f"{where}: by and at_most are factors, from 1 up, the second one larger")
    return (least, most) if relation in MORE else (1 / most, 1 / least)


def _values(value: Any) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
