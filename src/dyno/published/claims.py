"""Findings of published experiments, with claims that a run can be checked against.

A finding is a statement with the claims that it makes. A claim is about rows of a run, and can be checked on another
machine: a contender is faster than others, or smaller, or sometimes fails. `stats.findings` checks claims; this
module neither reads a run nor knows a suite. docs/reference/published-experiments.md describes the format.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from dyno.contracts.model import UsageError, Value
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.value_types import JsonMapping, JsonObject

MORE, LESS = ("faster", "more", "fastest", "most"), ("slower", "less", "slowest", "least")
ALL = ("fastest", "slowest", "most", "least")
"""Relations of one contender to all others."""
ABOUT, FAILS = "about", "fails"
RELATIONS = (*MORE, *LESS, ABOUT, FAILS)
OF_ITSELF = {"than_params", "than_phase", "than_fact"}
"""Keys in which the two sides of a claim may differ. With one of them, both sides may be the same contender."""
WITHIN = 0.25
"""Default tolerance of `about`."""


@dataclass(frozen=True)
class Claim:
    """A relation of rows of a run to other rows of the same phase."""

    of: str
    """Name of the engine in runs."""
    relation: str
    than: tuple[str, ...]
    """The engines of the other rows; may contain the same engine, with other parameters."""
    phases: tuple[str, ...]
    params: Mapping[str, tuple[Value, ...]]
    """Values that both sides may have. Parameters that are not listed may have any value."""
    metric: str
    """A metric of `stats.metric`, or the name of a fact."""
    fact: bool
    low: float
    """Bounds of the ratio of speeds (more is better) or of facts. For `fails`, `low` is the least share of trials."""
    high: float
    published: float = 1.0
    """For `about`, the published ratio, which says which side was larger; 1 if the sides were equal, within the
    published deviations. The bounds of other relations say it themselves."""
    of_params: Mapping[str, Value] = field(default_factory=dict)
    than_params: Mapping[str, Value] = field(default_factory=dict)
    """Values of one side only, in which the two sides differ."""
    across_tiers: str = ""
    """Why two tiers may be compared, in phases that write nothing. Empty if they may not."""
    across_tools: str = ""
    """Why figures of two outside tools may be compared. Empty if they may not."""
    than_phase: str = ""
    """Phase of the other row, if it is another phase."""
    than_fact: str = ""
    """Fact of the other side, if it is another fact."""


@dataclass(frozen=True)
class Finding:
    """A statement. It is confirmed if all of its claims hold."""

    claims: tuple[Claim, ...]
    says: str = ""
    """The statement in the words of the published text."""
    shows: str = ""
    """The finding in Dyno's words, if a published table shows it without a statement. A finding has either `says` or
    `shows`."""
    read_as: str = ""
    """How ambiguous words of the statement are read."""
    unchecked: str = ""
    """Why the finding has no claim."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """Least values of parameters at which the statement was made. A smaller run does not check it."""


def findings(
    data: Sequence[JsonMapping],
    known: Mapping[str, str],
    where: str,
    needs: Mapping[str, int] = MappingProxyType({}),
    beside: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Parses the tables of a file. `known` has each contender's engine, by the contender's name; those of `beside`
    are not in statements about all. `needs`: those of a finding that doesn't declare its own. Raises UsageError for a
    finding that can't be checked."""
    parsed = []
    published = [name for name in known if name not in beside]
    for at, each in enumerate(data, 1):
        place = f"{where}: finding {at}"
        claims = tuple(_claim(dict(claim), known, published, place) for claim in each.get("claims", ()))
        try:
            finding = Finding(**{"needs": needs, **each, "claims": claims})
        except TypeError as error:
            raise UsageError(f"{place}: {error}") from None
        if bool(finding.says) == bool(finding.shows):
            raise UsageError(f"{place}: expected either says or shows")
        if bool(claims) == bool(finding.unchecked):
            raise UsageError(f"{place}: expected either claims or unchecked")
        for name, least in finding.needs.items():
            if type(least) is not int or least < 1:
                raise UsageError(f"{place}: needs: {name}: expected a whole number of at least 1, got {least!r}")
        parsed.append(finding)
    return tuple(parsed)


def _claim(data: JsonObject, known: Mapping[str, str], published: Sequence[str], where: str) -> Claim:
    relation, of = data.pop("relation", None), data.pop("of", None)
    if relation not in RELATIONS:
        raise UsageError(unknown_name_message(f"{where}: relation", relation, RELATIONS))
    than = data.pop("than", None)
    if not than and not OF_ITSELF.isdisjoint(data):
        than = (of,)
    elif not than:
        if relation in ALL:
            than = tuple(name for name in published if name != of)
        else:
            than = ()
    for name in (of, *than):
        if name not in known:
            raise UsageError(unknown_name_message(f"{where}: contender", name, known))
    phases = data.pop("phases", ())
    if bool(phases) == (relation == FAILS):
        raise UsageError(f"{where}: phases are required for every relation except {FAILS}, which has none")
    if not than and relation != FAILS:
        raise UsageError(f"{where}: than is required for {relation}")
    low, high, ratio = _bounds(relation, data, where)
    fact, metric = data.pop("fact", None), data.pop("metric", "throughput")
    params = {
        name: tuple(value) if isinstance(value, list) else (value,) for name, value in data.pop("params", {}).items()
    }
    if more := data.keys() - {each.name for each in fields(Claim)}:
        raise UsageError(f"{where}: unknown keys of a claim by {relation}: {', '.join(more)}")
    engines, measured = tuple(known[name] for name in than), fact or metric
    return Claim(
        known[of], relation, engines, tuple(phases), params, measured, fact is not None, low, high, ratio, **data
    )


def _bounds(relation: str, data: JsonObject, where: str) -> tuple[float, float, float]:
    """Returns the bounds and the published ratio of `Claim`, from 'by' and 'at_most'; of `about` from 'ratio' and
    either 'within' or 'between'; of `fails` from 'at_least'."""
    if relation == FAILS:
        share = data.pop("at_least", None)
        if not isinstance(share, float) or not 0 < share < 1:
            raise UsageError(f"{where}: at_least: expected a share of the trials between 0 and 1, got {share}")
        return share, 1.0, 1.0
    if relation == ABOUT:
        ratio, between = data.pop("ratio", None), data.pop("between", None)
        if between is None:
            within = data.pop("within", WITHIN)
        else:
            within = WITHIN
        if not isinstance(ratio, (int, float)) or ratio <= 0 or not 0 < within < 1:
            raise UsageError(f"{where}: expected a ratio over 0, and within between 0 and 1")
        low, high = between or (ratio * (1 - within), ratio * (1 + within))
        if not 0 < low < ratio < high:
            raise UsageError(f"{where}: between: expected two bounds over 0 around the ratio {ratio}, got {between}")
        return low, high, ratio
    least, most = data.pop("by", 1), data.pop("at_most", math.inf)
    if not 1 <= least < most:
        raise UsageError(f"{where}: expected factors of at least 1, by less than at_most; got {least} and {most}")
    if relation in MORE:
        low = least
        high = most
    else:
        low = 1 / most
        high = 1 / least
    return low, high, 1.0
