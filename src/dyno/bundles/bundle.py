"""Packs a run as a bundle, and opens one: run, plan and data files, verified."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dyno import registry, results
from dyno.bundles import consistency
from dyno.bundles.anonymous import cleaner, names_of_this_machine, secret_in
from dyno.bundles.container import (
    DATA,
    MOST_BYTES,
    MOST_DATA,
    PLAN,
    RUN,
    Listed,
    Role,
    digest,
    pack_members,
    parse_bundle,
    read,
)
from dyno.contracts.cell import Cell
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import UsageError
from dyno.contracts.safe_read import toml
from dyno.contracts.settings import SIZE
from dyno.contracts.value_types import JsonMapping, JsonObject
from dyno.options import OPTIONS
from dyno.results import Run
from dyno.runner.plan_file import as_toml

RUN_FILE = "run.json"
PLAN_FILE = "plan.toml"
DATA_FOLDER = "data"
OWN_KEYS = ("clients", "rate")
"""Parameters of every suite, which are keys of their own in a plan file."""
NOT_REPEATED = {"load_from", "plain_tcp", "least"}
"""Options that say where a run was made."""


def pack(path: Path) -> bytes:
    """Returns the bundle of a run file. Raises UsageError for a run file that can't be read, whose samples contradict
    each other, or that has what looks like a secret."""
    run = results.load(path)
    _check(path, run)
    clean = cleaner(names_of_this_machine())
    lines = [clean(results.parse_line(line)) for line in results.lines(path)]
    for at, cell in enumerate(run.cells):
        # A command or a parameter without its path would be another one.
        spec = registry.attempt("engine", cell.engine)
        labelled = isinstance(spec, EngineSpec) and spec.listing.labelled
        for name in ("params", "options") if labelled else ("params",):
            given = dict(getattr(cell, name))
            for place in _find_differences(given, clean(given), name):
                raise UsageError(
                    f"{path}: {place} of row {at + 1} names a path, an address, a host or a user: take it out and run"
                    " again"
                )
    members: dict[str, tuple[Role, bytes]] = {}
    left_out = list[Listed]()
    if run.header.definition is not None:
        # Cleaned scripts would be other scripts.
        definition, data, left_out = _definition(run.header.definition)
        members |= {name: (DATA, content) for name, content in data.items()}
        for place in _find_differences(definition, clean(definition), run.plan.suite):
            raise UsageError(f"{path}: {place} names a path, an address, a host or a user: take it out and run again")
        lines[0]["definition"] = definition
    encoded = b"".join(results.encode(line) + b"\n" for line in lines)
    members[RUN_FILE] = (RUN, encoded)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, RUN_FILE)
        copy.write_bytes(encoded)
        published = results.load(copy)
        _check(path, published)
    members[PLAN_FILE] = (PLAN, as_toml(plan_of(published)).encode())
    for name, (_, content) in members.items():
        if (kind := secret_in(content.decode(errors="replace"))) is not None:
            raise UsageError(
                f"{path if name == RUN_FILE else name} has what looks like {kind}: remove it; nothing was written"
            )
    content = pack_members(members, left_out)
    if len(content) > MOST_BYTES:
        raise UsageError(
            f"{path} and its data are too large for a bundle: {len(content) >> 20} MiB of {MOST_BYTES >> 20}"
        )
    # What readers refuse, such as too many data files, is not written.
    parse_bundle(content, path)
    return content


def _definition(original: Mapping[str, object]) -> tuple[JsonObject, dict[str, bytes], list[Listed]]:
    """Returns a definition with the names that its data files have in the bundle, the contents of these, and those
    that are too large. Raises UsageError if a file is not the measured one any more."""
    definition: dict[str, object] = json.loads(json.dumps(original))
    data, left_out = dict[str, bytes](), list[Listed]()
    for at, table in enumerate(_data_files(definition).values(), 1):
        file, sha256 = Path(table["file"]), table["sha256"]
        name = table["file"] = f"{DATA_FOLDER}/{at}{file.suffix}"
        try:
            size = file.stat().st_size
            content = None
            if size <= MOST_DATA:
                content = file.read_bytes()
        except OSError as error:
            raise UsageError(f"can't read the run's data file {file}: {error.strerror}") from None
        if content is None:
            left_out.append(Listed(name, DATA, size, sha256))
        elif digest(content) == sha256:
            data[name] = content
        else:
            raise UsageError(f"{file} has changed since the run: a bundle needs the measured data")
    return definition, data, left_out


def _find_differences(one: object, other: object, where: str) -> Iterator[str]:
    """Yields the places in which two definitions differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for name, each in one.items():
            yield from _find_differences(each, other[name], f"{where}.{name}")
    elif one != other:
        yield where


def _check(path: Path, run: Run) -> None:
    if not any(attempt.samples for attempt in run.attempts):
        raise UsageError(f"{path} has no measurement to publish")
    try:
        consistency.check(run)
    except ValueError as error:
        raise UsageError(f"{path} contradicts itself: {error}") from None


def _data_files(definition: JsonMapping) -> dict[str, JsonObject]:
    """Returns the tables of a definition that are read from files."""
    tables = definition.get("tables") or {}
    return {name: table for name, table in tables.items() if isinstance(table, dict) and "file" in table}


def plan_of(run: Run) -> dict[str, object]:
    """Returns the plan file's table that makes the same plan."""
    cells = [cell for cell in run.cells if not cell.floor] or list(run.cells)
    names = list(cells[0].params)
    values = {name: list(dict.fromkeys(cell.params[name] for cell in cells)) for name in names}
    tiers = {cell.tier_name for cell in cells}
    own = {name: of for name, of in values.items() if name in OWN_KEYS}
    param = {name: of for name, of in values.items() if name not in OWN_KEYS and of != [""]}
    engines = {cell.row: _entry(cell) for cell in cells}
    plan: JsonObject = {"suite": run.plan.suite, "engine": list(engines.values())}
    if run.header.preset:
        plan["preset"] = run.header.preset
    plan |= {"phases": list(run.plan.phases), **own}
    if param:
        plan["param"] = param
    # If there are several tiers, each is its engine's default.
    if len(tiers) == 1 and (tier := next(iter(tiers))) is not None:
        plan["tier"] = tier
    for option in OPTIONS:
        value = run.recorded["plan"].get(option.name)
        if value in (None, False, [], "") or option.name in NOT_REPEATED or option.key in plan:
            continue
        if option.kind is SIZE:
            plan[option.key] = f"{value}B"
        else:
            plan[option.key] = value
    if run.plan.until_text is not None:
        plan["until"] = run.plan.until_text
    if "preset" in plan and run.plan.least > 1:
        # The preset's own rule, which also asks for a least number of blocks. A plan with `until` doesn't.
        plan.pop("until", None)
        plan.pop("within", None)
    if "duration" in plan:
        plan.pop("budget", None)
    if "limit" in plan:
        # A search chooses its rates and the number of its probes.
        for key in ("rate", "samples", "until"):
            plan.pop(key, None)
    if (definition := run.header.definition) is not None:
        tables = {name: one["file"] for name, one in _data_files(definition).items()}
        plan[run.plan.suite] = {
            **definition,
            **({"tables": {**definition["tables"], **tables}} if tables else {}),
        }
    return plan


def _entry(cell: Cell) -> str | dict[str, object]:
    label = {"label": cell.name} if cell.name else {}
    if cell.options or label:
        return {"name": cell.engine, **cell.options, **label}
    return cell.engine


@dataclass(frozen=True)
class Bundle:
    """A verified bundle, whose members are in `home` while it is open."""

    path: Path
    home: Path
    run: Run
    plan: Mapping[str, object]
    left_out: tuple[Listed, ...]


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Verifies and unpacks a bundle, until the end of the block. Raises UsageError."""
    manifest, contents = read(path)
    roles = {each.name: each.role for each in manifest.members}
    data_only = {name for name, role in roles.items() if role == DATA}
    if roles.keys() - data_only != {RUN_FILE, PLAN_FILE} or (roles[RUN_FILE], roles[PLAN_FILE]) != (RUN, PLAN):
        raise UsageError(f"{path} is damaged: expected {RUN_FILE} and {PLAN_FILE}, and beside them only data")
    if any(not name.startswith(f"{DATA_FOLDER}/") for name in data_only):
        raise UsageError(f"{path} is damaged: data files must be in {DATA_FOLDER}/")
    with tempfile.TemporaryDirectory(prefix="dyno-bundle-") as place:
        home = Path(place)
        (home / DATA_FOLDER).mkdir()
        for name, content in contents.items():
            (home / name).write_bytes(content)
        try:
            run = results.load(home / RUN_FILE)
            plan = toml(home / PLAN_FILE)
        except UsageError as error:
            raise UsageError(str(error).replace(f"{home}/", f"{path}: ")) from None
        _check(path, run)
        yield Bundle(path, home, run, plan, tuple(manifest.left_out))
