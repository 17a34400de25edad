"""The rows of a plan: engines with their requested options and tiers, and null engines in addition."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from dyno import registry
from dyno.contracts import versions
from dyno.contracts.cell import Cell
from dyno.contracts.engine import TIER, EngineSpec
from dyno.contracts.model import VERSION, Tier, UsageError, Value, weakest
from dyno.contracts.native_load import CLIENT, NATIVE_CLIENT
from dyno.contracts.pace import AUTO_LOAD, NATIVE_LOAD
from dyno.contracts.passwords import HIDDEN, mask_argument
from dyno.contracts.roles import DefinableSuite, EngineEntry, NativeSuite, RemoteSuite, variants_of
from dyno.contracts.sanitize import sanitize
from dyno.contracts.settings import unknown_name_message
from dyno.contracts.suite import Suite
from dyno.contracts.versions import VERSIONED
from dyno.options import RunRequest
from dyno.runner.engine_row import GOOD_LABEL, EngineRow, check_tier, name_variant, with_variants
from dyno.servers.listen import LISTEN
from dyno.servers.user_server import URL

LABEL = "label"
"""Key of the row's label in an engine's table."""
_LABELLED = re.compile(r"([^:=]*)=(.*)", re.DOTALL)
LONGEST_LABEL = 60
_PLUS = re.compile(r"://[^@+]*\+[^@]*@")
"""Matches an address with a user and a +. The + would split it within its password."""


class NamedRow(NamedTuple):
    """A requested engine after parsing."""

    name: str
    options: dict[str, Any]
    tier: Tier | None
    """The engine's own tier, which overrides the run's; None if there is none."""
    label: str | None = None

    @property
    def asked(self) -> str:
        """The name of the engine's row, which does not include the tier."""
        return Cell("", self.name, self.options, None, {}).asked


def rows_of(
    suite: Suite, request: RunRequest, clients: int, native: bool = False, left_out: list[str] | None = None
) -> list[EngineRow]:
    """Returns the requested engines, or else the suite's default engines, with a null engine for each of their
    tiers. `native`: whether native load can run any phase of the run, and has several requests at once. Adds to
    `left_out` a line for each requested version that can't run here, and raises UsageError if nothing else is left.
    """
    tier = None
    if request.tier is not None:
        tier = tier_named(request.tier)
    if request.engines:
        missing = list[str]()
        rows = _resolve_named_engines(suite, request, tier, missing)
        if missing and all(row.spec.floor for row in rows):
            raise UsageError("; ".join(missing))
        if left_out is not None:
            left_out += missing
    else:
        # Engines that run without being named: installed, not null engines, with the tier, and able to serve the
        # clients. If the suite declares default engines, only these run.
        specs = [
            s
            for s in registry.engines_for(suite)
            if s.listing.by_default and not s.floor and not s.explain_unavailability()
        ]
        specs = [s for s in specs if not suite.engines or s.name in suite.engines]
        able = [s for s in specs if clients == 1 or s.clients != "one"]
        rows = [EngineRow(s, {}, tier or s.default_tier) for s in able if tier is None or tier in s.tiers]
    if isinstance(suite, DefinableSuite) and suite.on_user_server:
        for row in rows:
            if not row.spec.floor and not row.options.get(URL):
                raise UsageError(
                    f"engine {row.spec.name}: the tables are those of your own server: name it by {URL}="
                )
    _check_variants(suite)
    rows = with_variants(suite, rows)
    _check_labels(rows)
    for row in rows:
        if clients > 1 and row.spec.clients == "one":
            raise UsageError(f"engine {row.spec.name} serves one client, not {clients}: leave it out, or request 1")
    if not rows:
        raise UsageError(f"suite {suite.name}: {_why_none(suite, tier)}")
    # Whether the user has chosen the client of a server, or named a server of their own. Most native load refuses an
    # encrypted connection, and only a connection shows whether the server encrypts it.
    choices = {CLIENT} if isinstance(suite, NativeSuite) and suite.native_tls else {CLIENT, URL}
    chosen = any(row.spec.server is not None and row.options.keys() & choices for row in rows)
    if request.load == NATIVE_LOAD:
        rows = _natively_loaded(suite, rows)
    elif request.load in (None, AUTO_LOAD) and native and not chosen:
        # Like is compared with like: if one server can't be loaded natively, the library loads all of them.
        rows = _natively_loaded(suite, rows) if natively_loadable(suite, rows) else rows
    # A search has no floor: its rows are compared by what they can take, and not by their time. Other machines can't
    # reach a null engine, which has no server.
    if request.limit or request.load_from:
        return rows
    return rows + _floors(suite, rows)


def check_remote(address: str, plain: bool, suite: Suite, phases: Sequence[str], rows: Sequence[EngineRow]) -> None:
    """Raises UsageError unless the machines of the scheduler at the address can load the servers of all rows."""
    from dyno.machines.scheduler import check_address, missing_library_message

    check_address(address, plain, "load-from")
    if find_spec("distributed") is None:
        raise UsageError(f"load-from {missing_library_message()}")
    if not isinstance(suite, RemoteSuite):
        raise UsageError(f"load-from: clients of suite {suite.name} run on this machine only")
    if reported := [phase.name for phase in suite.phases if phase.reported and phase.name in phases]:
        raise UsageError(f"load-from: phase {reported[0]} is an outside tool's work, which runs on this machine only")
    for row in rows:
        if row.spec.server is None:
            raise UsageError(f"load-from: engine {row.spec.name} has no server that other machines could reach")
        if not row.options.get(LISTEN) and not row.options.get(URL):
            known = any(setting.name == LISTEN for setting in row.spec.options)
            if known:
                how = f"{LISTEN}=ADDRESS, an address of this machine"
            else:
                how = f"{URL}=, a server of yours"
            raise UsageError(f"load-from: engine {row.spec.name} must be reached by other machines: add {how}")


def natively_loadable(suite: Suite, rows: Sequence[EngineRow]) -> bool:
    """Returns whether native load can load the servers of all rows."""
    try:
        _natively_loaded(suite, rows)
    except UsageError:
        return False
    return True


def _natively_loaded(suite: Suite, rows: Sequence[EngineRow]) -> list[EngineRow]:
    """Returns the rows with native load for servers. Rows without a server, and rows whose `client` the user has set,
    stay as they are. Raises UsageError for a server that can't be loaded natively."""
    loaded = list[EngineRow]()
    for row in rows:
        if row.spec.server is None or CLIENT in row.options:
            loaded.append(row)
            continue
        name, options = row.spec.name, {**row.options, CLIENT: NATIVE_CLIENT}
        if not isinstance(suite, NativeSuite) or not _accepts(row.spec, {CLIENT: NATIVE_CLIENT}):
            raise UsageError(f"load: engine {name} has no native load in suite {suite.name}: use library")
        resolved = row.spec.resolve(options)
        if lacking := row.spec.explain_unavailability(resolved):
            raise UsageError(f"engine {name} {lacking}")
        check_tier(row.spec, row.tier, resolved)
        loaded.append(row._replace(options=options))
    return loaded


def _why_none(suite: Suite, tier: Tier | None) -> str:
    """Explains why no engine runs by default."""
    every = [spec for spec in registry.engines_for(suite) if not spec.floor]
    able = [spec for spec in every if not spec.explain_unavailability()]
    if able and not any(spec.listing.by_default for spec in able):
        return f"its engines run only if named: -e {','.join(spec.name for spec in able)}"
    named = [spec for spec in every if spec.name in suite.engines]
    if len(named) == 1 and (lacking := named[0].explain_unavailability()):
        return f"engine {named[0].name} {lacking}"
    if tier is None or any(spec.tiers for spec in registry.engines_for(suite)):
        return "no engine can run here; `dyno list` says what to install"
    return f"it has no tiers, nor {tier}"


def _floors(suite: Suite, rows: Sequence[EngineRow]) -> list[EngineRow]:
    """Returns the null engines of the first port and of the rows' ports, at each tier, unless requested."""
    used = {suite.ports[0], *(port for row in rows for port in row.spec.ports)}
    floors = [spec for spec in registry.engines_for(suite) if spec.floor and used & spec.ports.keys()]
    requested = [(row.spec.name, row.tier) for row in rows]
    tiers = list(dict.fromkeys(row.tier for row in rows))
    floor_tiers = ((spec, tier) for spec in floors for tier in tiers if tier in (spec.tiers or (None,)))
    return [EngineRow(spec, {}, tier) for spec, tier in floor_tiers if (spec.name, tier) not in requested]


def _choose_versions(spec: EngineSpec, named: NamedRow, missing: list[str]) -> Iterator[NamedRow]:
    """Yields the row, or one for each installed version that it names. Adds to `missing` a line for each other one.
    Raises UsageError."""
    text = named.options.get(VERSION)
    if text is None:
        yield named
        return
    line = registry.versions_of(spec).line
    installed = [each.version for each in versions.choose_installed(spec.name, str(text), line)]
    known = versions.choose(spec.name, str(text), versions.read_catalog(spec.name), line)
    lines = {versions.release(each)[:line] for each in installed}
    absent = [each for each in known if versions.release(each)[:line] not in lines]
    if not installed and not known:
        absent = [str(text)]
    missing += [f"engine {spec.name}@{each} is not installed: dyno install {spec.name}@{each}" for each in absent]
    for version in installed:
        yield named._replace(options={**named.options, VERSION: version})


def _resolve_named_engines(
    suite: Suite, request: RunRequest, tier: Tier | None, missing: list[str]
) -> list[EngineRow]:
    rows: list[EngineRow] = []
    entries = [named for _, named in split_engines(request.engines)]
    every = (row for each in entries for row in _choose_versions(registry.engine(each.name), each, missing))
    for named in every:
        name, options = named.name, named.options
        spec = registry.reduce_to_suite(suite, registry.engine(name))
        if spec is None:
            suites = [
                s.name for s in registry.suites() if registry.reduce_to_suite(s, registry.engine(name)) is not None
            ]
            engines = ", ".join(each.name for each in registry.engines_for(suite))
            raise UsageError(
                f"engine {name} has no port of suite {suite.name}; it runs in {', '.join(suites) or 'none'};"
                f" {suite.name} has {engines}"
            )
        resolved = spec.resolve(options)
        if lacking := spec.explain_unavailability(resolved):
            if VERSION in options:
                missing.append(f"engine {named.asked} {lacking}")
                continue
            raise UsageError(f"engine {name} {lacking}")
        requested = named.tier or tier
        gives = None
        if spec.server is not None:
            gives = spec.server.gives
        follows = requested is None and gives is not None and bool(resolved.get(URL))
        least = weakest(spec.tiers) if follows else spec.default_tier
        values = {option: resolved[option] for option in options}
        label = named.label
        if label is None and spec.listing.labelled in values:
            text = sanitize(str(values[spec.listing.labelled]), keep="")
            if len(text) <= LONGEST_LABEL:
                label = text
            else:
                label = f"{text[: LONGEST_LABEL - 1]}…"
        row = EngineRow(spec, values, requested or least, follows, label)
        check_tier(spec, row.tier, resolved)
        if row not in rows:
            rows.append(row)
    return rows


def _check_variants(suite: Suite) -> None:
    """Raises UsageError if a variant has options of an engine that can't run the suite."""
    for name, variant in variants_of(suite).items():
        for engine in variant.options:
            with name_variant(name):
                if registry.reduce_to_suite(suite, registry.engine(engine)) is None:
                    raise UsageError(f"engine {engine} has no port of suite {suite.name}")


def _check_labels(rows: Sequence[EngineRow]) -> None:
    """Raises UsageError if two rows have the same label. Two labels may name the same engine with the same options: a
    run of equals shows what chance does."""
    names: dict[str, EngineRow] = {}
    for row in rows:
        name = row.label or Cell("", row.spec.name, row.options, None, {}).asked
        first = names.setdefault(name, row)
        # An engine may have a row for each of several tiers.
        if (first.spec, first.options) != (row.spec, row.options) or (first is not row and first.tier == row.tier):
            raise UsageError(f"label {name} is given to two rows: give each its own")


def add_address(suite: Suite, entries: Sequence[EngineEntry], address: str) -> list[EngineEntry]:
    """Adds the address of the user's own server or cluster to the entries. Without entries, returns all engines of
    the suite that accept the address. Raises UsageError for an engine that takes no address, or if no engine accepts
    this one."""
    with_url = [s for s in registry.engines_for(suite) if any(o.name == URL and o.address for o in s.options)]
    if entries:
        tables = [{**_split_entry(entry)[1], "name": _split_entry(entry)[0], URL: address} for entry in entries]
        for spec in (registry.reduce_to_suite(suite, registry.engine(str(table["name"]))) for table in tables):
            if spec is not None and not any(setting.name == URL for setting in spec.options):
                able = ", ".join(spec.name for spec in with_url) or "none"
                raise UsageError(
                    f"engine {spec.name} can't run on a server of yours; of suite {suite.name}, these can: {able}"
                )
        return list(tables)
    accepting = [spec for spec in with_url if _accepts(spec, {URL: address})]
    if not accepting:
        raise UsageError(f"suite {suite.name}: no engine takes {mask_argument(address)}; see `dyno list engines`")
    return [{"name": spec.name, URL: address} for spec in accepting]


def _accepts(spec: EngineSpec, options: Mapping[str, Value]) -> bool:
    try:
        spec.resolve(options)
    except UsageError:
        return False
    return True


def find_unavailable(suite: Suite, engines: Iterable[EngineEntry]) -> dict[str, str]:
    """Returns the engines that can't run here, by the names of their rows, each with the reason."""
    reasons: dict[str, str] = {}
    for named in map(parse_entry, engines):
        declared = registry.attempt("engine", named.name)
        spec = None
        if isinstance(declared, EngineSpec):
            spec = registry.reduce_to_suite(suite, declared)
        if spec is None:
            reasons[named.asked] = f"it is not an engine of suite {suite.name}"
        elif (why := spec.explain_unavailability(spec.resolve(named.options))) is not None:
            reasons[named.asked] = why
    return reasons


def split_engines(texts: Iterable[EngineEntry]) -> Iterator[tuple[EngineEntry, NamedRow]]:
    """Yields each entry and its parsed form. Raises UsageError for an unknown engine. The message contains no part of
    an address."""
    address = False
    for text in texts:
        try:
            name = _label(text)[1].partition(":")[0] if isinstance(text, str) else text["name"]
            registry.engine(str(name).partition(VERSIONED)[0])
        except UsageError:
            if address:
                # The text may be the rest of a password that contains a comma.
                raise UsageError(
                    "expected an engine after the comma in an address: write a comma of the address as %2C; or"
                    " give the address by url=env:NAME, url=file:PATH or in a plan file"
                ) from None
            raise
        address = address or "://" in str(text)
        yield text, parse_entry(text)


def split_versions(texts: Iterable[EngineEntry]) -> Iterator[tuple[str, NamedRow]]:
    """Yields each entry and its parsed form, once for each installed version that it names. Raises UsageError for an
    unknown engine, or for a version that isn't installed."""
    for text, named in split_engines(texts):
        if VERSION not in named.options:
            yield str(text), named
            continue
        missing = list[str]()
        for row in _choose_versions(registry.engine(named.name), named, missing):
            yield row.asked, row
        if missing:
            raise UsageError(missing[0])


def tier_named(name: str) -> Tier:
    """Returns the tier of this name. If there is none, raises UsageError, which suggests the nearest name."""
    try:
        return Tier(name)
    except ValueError:
        raise UsageError(unknown_name_message("tier", name, [tier.value for tier in Tier])) from None


def parse_entry(text: EngineEntry) -> NamedRow:
    """Parses 'wal=sqlite:journal_mode=wal+cache_mib=8+tier=power' into a label, a name, options and a tier."""
    name, options = _split_entry(text)
    tier, label = options.pop(TIER, None), options.pop(LABEL, None)
    if label is not None and not GOOD_LABEL.fullmatch(str(label)):
        if len(str(label)) > 40 or "/" in str(label):
            shown = "the label"
        else:
            shown = f"label {shlex.quote(str(label))}"
        raise UsageError(f"engine {name}: {shown}: expected 1 to 40 letters, digits, blanks or . _ -")
    if label is not None and label != name and label in registry.names("engine"):
        raise UsageError(f"engine {name}: label {label} is the name of another engine: choose another label")
    return NamedRow(name, options, None if tier is None else tier_named(str(tier)), label)


def _label(text: str) -> tuple[str | None, str]:
    """Splits 'LABEL=ENGINE:…'. The label is None if the text has none."""
    match = _LABELLED.fullmatch(text)
    if match:
        return (match[1], match[2])
    return (None, text)


SET = "set."
"""Prefix of the name of an engine's own setting: see `servers.set_option`."""


def _split_entry(text: EngineEntry) -> tuple[str, dict[str, Any]]:
    name, options = _split_options(text)
    name, at, version = name.partition(VERSIONED)
    if at and VERSION in options:
        raise UsageError(f"engine {name}: its version is given twice: {version} and {options[VERSION]}")
    if at:
        options[VERSION] = version
    return name, options


def _split_options(text: EngineEntry) -> tuple[str, dict[str, Any]]:
    if not isinstance(text, str):
        return text["name"], {option: value for option, value in text.items() if option != "name"}
    label, text = _label(text)
    name, colon, rest = text.partition(":")
    if _PLUS.search(rest):
        raise UsageError(f"engine {name}: write a + in an address as %2B")
    if label is None:
        options: dict[str, Any] = {}
    else:
        options = {LABEL: label}
    for part in rest.split("+") if colon else ():
        option, equals, value = part.partition("=")
        if not equals or not option:
            raise UsageError(f"engine {mask_argument(text)}: expected {name}:option=value+option=value")
        if option.startswith(SET):
            # All settings are collected in the value of one option.
            options[SET[:-1]] = f"{options.get(SET[:-1], '')} {shlex.quote(f'{option[len(SET) :]}={value}')}".strip()
        else:
            options[option] = value
    return name, options


def mask_addresses(spec: EngineSpec, options: Mapping[str, Value], addresses: dict[str, str]) -> dict[str, Value]:
    """Returns the options with masked addresses. Adds the unmasked addresses to `addresses`."""
    shown = dict(options)
    for setting in spec.options:
        address = ""
        if setting.address:
            address = str(options.get(setting.name, ""))
        if (name := mask_argument(address)) != address:
            shown[setting.name] = name
            if addresses.setdefault(name, address) != address:
                raise UsageError(f"{name} is given twice with different {HIDDEN}: their rows would have one name")
    return shown
