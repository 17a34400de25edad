"""The rows of a plan: engines with the options that were asked for, their tiers, and the null engines among them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dyno import registry
from dyno.contracts.engine import TIER, EngineSpec
from dyno.contracts.model import Tier, UsageError, Value, weakest
from dyno.contracts.sample import Cell
from dyno.contracts.settings import unknown
from dyno.contracts.suite import Suite
from dyno.options import RunRequest
from dyno.servers.user_server import URL
from dyno.text.passwords import HIDDEN, mask_argument


class EngineRow(NamedTuple):
    """An engine of a plan, with the options that were asked for."""

    spec: EngineSpec
    options: dict[str, Value]
    tier: Tier | None
    follows: bool = False
    """See `Cell.follows`."""
    label: str | None = None


Entry = str | Mapping[str, Any]
"""An engine as it is asked for: 'sqlite:journal_mode=wal+cache_mib=8', or a table of `name` and options."""
LABEL = "label"
"""The key of a table that calls the row by another name."""
_LABELLED = re.compile(r"([^:=]*)=(.*)", re.DOTALL)
_GOOD_LABEL = re.compile(r"[A-Za-z0-9][\w. -]{0,39}", re.ASCII)
_PLUS = re.compile(r"://[^@+]*\+[^@]*@")
"""Of an address with a user: its password was cut in two."""


class NamedRow(NamedTuple):
    """What an entry says."""

    name: str
    options: dict[str, Any]
    tier: Tier | None
    """Its own, which stands before that of all; None where it has none."""
    label: str | None = None

    @property
    def asked(self) -> str:
        """As a row names it, in which no tier stands."""
        return Cell("", self.name, self.options, None, {}).asked


def rows_of(suite: Suite, asked: RunRequest, clients: int) -> list[EngineRow]:
    """Engines with the options that were asked for, and a null engine for each tier among them."""
    tier = None if asked.tier is None else tier_named(asked.tier)
    rows = _named(suite, asked, tier) if asked.engines else _default(suite, tier, clients)
    _check_clients(rows, clients)
    if not rows:
        raise UsageError(f"suite {suite.name}: {_why_none(suite, tier)}")
    return rows + _floors(suite, rows)


def _why_none(suite: Suite, tier: Tier | None) -> str:
    """Why no engine runs without being named."""
    every = [spec for spec in registry.engines_for(suite) if not spec.floor]
    able = [spec for spec in every if not spec.lacking()]
    if able and not any(spec.by_default for spec in able):
        return f"none of its engines runs unless it is named: -e {','.join(spec.name for spec in able)}"
    named = [spec for spec in every if spec.name in suite.engines]
    if len(named) == 1 and (lacking := named[0].lacking()):
        return f"engine {named[0].name} {lacking}"
    if tier is None or any(spec.tiers for spec in registry.engines_for(suite)):
        return "no engine can run here; `dyno list` says what to install"
    return f"it has no tiers, nor {tier}"


def _floors(suite: Suite, rows: Sequence[EngineRow]) -> list[EngineRow]:
    """The null engines of the suite's own port and of each port that a row is measured through, at each tier.

    Those that were asked for are not added again.
    """
    used = {suite.ports[0], *(port for row in rows for port in row.spec.ports)}
    floors = [spec for spec in registry.engines_for(suite) if spec.floor and used & spec.ports.keys()]
    there = [(row.spec.name, row.tier) for row in rows]
    tiers = list(dict.fromkeys(row.tier for row in rows))
    wanted = ((spec, tier) for spec in floors for tier in tiers if tier in (spec.tiers or (None,)))
    return [EngineRow(spec, {}, tier) for spec, tier in wanted if (spec.name, tier) not in there]


def _default(suite: Suite, tier: Tier | None, clients: int) -> list[EngineRow]:
    """Those that run without being named: installed, not a null engine, able to give the tier and to serve. Of a
    suite that says which, those alone."""
    specs = [s for s in registry.engines_for(suite) if s.by_default and not s.floor and not s.lacking()]
    specs = [s for s in specs if not suite.engines or s.name in suite.engines]
    able = [s for s in specs if clients == 1 or s.clients != "one"]
    return [EngineRow(s, {}, tier or s.default_tier) for s in able if tier is None or tier in s.tiers]


def _where_else(suite: Suite, name: str) -> str:
    """The suites that the engine runs in, and the engines that run in this one."""
    others = [each.name for each in registry.suites() if registry.through(each, registry.engine(name)) is not None]
    able = [spec.name for spec in registry.engines_for(suite)]
    return f"it runs in {', '.join(others) or 'none'}; {suite.name} has {', '.join(able)}"


def _named(suite: Suite, asked: RunRequest, tier: Tier | None) -> list[EngineRow]:
    rows: list[EngineRow] = []
    for _, named in split_engines(asked.engines):
        name, given = named.name, named.options
        spec = registry.through(suite, registry.engine(name))
        if spec is None:
            raise UsageError(f"engine {name} has no port of suite {suite.name}; {_where_else(suite, name)}")
        resolved = spec.resolve(given)
        if lacking := spec.lacking(resolved):
            raise UsageError(f"engine {name} {lacking}")
        wanted = named.tier or tier
        follows = wanted is None and spec.gives is not None and bool(resolved.get(URL))
        least = weakest(spec.tiers) if follows else spec.default_tier
        row = EngineRow(spec, {option: resolved[option] for option in given}, wanted or least, follows, named.label)
        _check_tier(spec, row.tier, resolved)
        if row not in rows:
            rows.append(row)
    _check_labels(rows)
    return rows


def _check_labels(rows: Sequence[EngineRow]) -> None:
    """Raises UsageError for a label that does not tell its rows from others."""
    names: dict[str, tuple[EngineSpec, dict[str, Value]]] = {}
    labels: dict[str, str] = {}
    for row in rows:
        asked = Cell("", row.spec.name, row.options, None, {}).asked
        name = row.label or asked
        if names.setdefault(name, (row.spec, row.options)) != (row.spec, row.options):
            raise UsageError(f"label {name} is given to two rows: each needs its own")
        if labels.setdefault(asked, name) != name:
            raise UsageError(f"{labels[asked]} and {name} are the same engine with the same options: leave one out")


def placed(suite: Suite, entries: Sequence[Entry], address: str) -> list[Entry]:
    """The engines, each on the user's own server or cluster at that address: those that are named, or else all of the
    suite that take one like it. Raises UsageError for one that takes none, or not this."""
    if entries:
        made = [{**_split(entry)[1], "name": _split(entry)[0], URL: address} for entry in entries]
        for spec in (registry.through(suite, registry.engine(str(one["name"]))) for one in made):
            if spec is not None and not any(setting.name == URL for setting in spec.options):
                able = ", ".join(spec.name for spec in _takes(suite)) or "none does"
                raise UsageError(f"engine {spec.name} runs on no server of yours; of suite {suite.name}: {able}")
        return list(made)
    able_specs = [spec for spec in _takes(suite) if _reads(spec, address)]
    if not able_specs:
        raise UsageError(f"suite {suite.name}: no engine takes {mask_argument(address)}; see `dyno list engines`")
    return [{"name": spec.name, URL: address} for spec in able_specs]


def _takes(suite: Suite) -> list[EngineSpec]:
    """Engines with an option that names a server of the user's own."""
    return [s for s in registry.engines_for(suite) if any(o.name == URL and o.address for o in s.options)]


def _reads(spec: EngineSpec, address: str) -> bool:
    try:
        spec.resolve({URL: address})
    except UsageError:
        return False
    return True


def lacking(suite: Suite, engines: Iterable[Entry]) -> dict[str, str]:
    """Those of the engines that can't run here as they are written, as a row names them, each with the reason."""
    found: dict[str, str] = {}
    for named in map(split, engines):
        declared = registry.attempt("engine", named.name)
        spec = registry.through(suite, declared) if isinstance(declared, EngineSpec) else None
        why = f"it is no engine of suite {suite.name}" if spec is None else spec.lacking(spec.resolve(named.options))
        if why is not None:
            found[named.asked] = why
    return found


def _check_tier(spec: EngineSpec, tier: Tier | None, options: Mapping[str, Value]) -> None:
    if tier is None:
        return
    if not spec.tiers:
        raise UsageError(f"engine {spec.name} stores nothing here, so that there is no tier to ask for: leave it out")
    if tier not in spec.tiers:
        gives = ", ".join(given.value for given in spec.tiers)
        raise UsageError(f"engine {spec.name} can't give tier {tier.value}; it gives: {gives}")
    if why := spec.ask("refuse", tier, options):
        raise UsageError(f"engine {spec.name}: {why}")


def _check_clients(rows: Sequence[EngineRow], most: int) -> None:
    for spec in (row.spec for row in rows):
        if most > 1 and spec.clients == "one":
            raise UsageError(f"engine {spec.name} serves one client, not {most}; leave it out or ask for 1")


def split_engines(texts: Iterable[Entry]) -> Iterator[tuple[Entry, NamedRow]]:
    """Each text or table with what it says, of an engine that is known. Raises UsageError, which tells no part of an
    address."""
    address = False
    for text in texts:
        try:
            registry.engine(_label(text)[1].partition(":")[0] if isinstance(text, str) else text["name"])
        except UsageError:
            if address:
                # Perhaps the rest of its password.
                raise UsageError(
                    "what follows the comma in an address is no engine: a comma of its own is written %2C; or name"
                    " the address by url=env:NAME, url=file:PATH or in a plan file"
                ) from None
            raise
        address = address or "://" in str(text)
        yield text, split(text)


def tier_named(name: str) -> Tier:
    """Raises UsageError, with the nearest name, if there is no such tier."""
    try:
        return Tier(name)
    except ValueError:
        raise UsageError(unknown("tier", name, [tier.value for tier in Tier])) from None


def split(text: Entry) -> NamedRow:
    """'wal=sqlite:journal_mode=wal+cache_mib=8+tier=power' as a label, a name, its options and its own tier."""
    name, options = _split(text)
    tier, label = options.pop(TIER, None), options.pop(LABEL, None)
    if label is not None and not _GOOD_LABEL.fullmatch(str(label)):
        shown = "the label" if len(str(label)) > 40 or "/" in str(label) else f"label {shlex.quote(str(label))}"
        raise UsageError(f"engine {name}: {shown} wants 1 to 40 letters, digits, blanks or . _ -")
    if label is not None and label != name and label in registry.names("engine"):
        raise UsageError(f"engine {name}: label {label} is the name of another engine")
    return NamedRow(name, options, None if tier is None else tier_named(str(tier)), label)


def _label(text: str) -> tuple[str | None, str]:
    """The label of 'NAME=ENGINE:…', None if there is none, and the rest."""
    found = _LABELLED.fullmatch(text)
    return (found[1], found[2]) if found else (None, text)


SET = "set."
"""Before the name of a setting of the engine's own: `servers.given`."""


def _split(text: Entry) -> tuple[str, dict[str, Any]]:
    if not isinstance(text, str):
        return text["name"], {option: value for option, value in text.items() if option != "name"}
    label, text = _label(text)
    name, colon, rest = text.partition(":")
    if _PLUS.search(rest):
        raise UsageError(f"engine {name}: a + in an address is written %2B")
    options: dict[str, Any] = {} if label is None else {LABEL: label}
    for part in rest.split("+") if colon else ():
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise UsageError(f"engine {mask_argument(text)}: options are written {name}:option=value+option=value")
        if option.startswith(SET):
            # Each in the option that has them all.
            options[SET[:-1]] = f"{options.get(SET[:-1], '')} {shlex.quote(f'{option[len(SET) :]}={value}')}".strip()
        else:
            options[option] = value
    return name, options


def hidden(spec: EngineSpec, options: Mapping[str, Value], addresses: dict[str, str]) -> dict[str, Value]:
    """The options with what is secret in their addresses hidden. What they are is added to `addresses`."""
    shown = dict(options)
    for setting in spec.options:
        address = str(options.get(setting.name, "")) if setting.address else ""
        if (name := mask_argument(address)) != address:
            shown[setting.name] = name
            if addresses.setdefault(name, address) != address:
                raise UsageError(f"{name} is given twice with another {HIDDEN}: nothing would tell the rows apart")
    return shown
