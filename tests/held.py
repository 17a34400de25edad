"""Stores for testing the ports of a single suite, and functions that run a port's checks on a store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import portchecks
from needed import require, unavailable, with_this_dyno

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Tier

Options = Mapping[str, Sequence[Mapping[str, str]]]
"""Maps an engine to the options to test at its default tier, in addition to its default options."""


CHECKS = "dyno.suites.{}.conformance"
"""The module of a port's checks."""


@dataclass(frozen=True)
class Store:
    """An engine at a tier, with options."""

    spec: EngineSpec
    tier: Tier
    given: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.spec.name, self.tier.value, *self.given.values()])

    def need(self) -> None:
        require(self.spec)
        if lacking := self.spec.explain_unavailability(self.spec.resolve(self.given)):
            unavailable(f"engine {self}: {lacking}")


def is_own(spec: EngineSpec) -> bool:
    """Returns whether the engine is Dyno's own, rather than a plug-in's."""
    opener = spec.opener.func if isinstance(spec.opener, partial) else spec.opener
    return opener.__module__.startswith("dyno.engines.")


def specs(port: str) -> list[EngineSpec]:
    """Every engine of Dyno's own that has the port and stores data."""
    return [
        spec.reduce_to_port(port)
        for spec in registry.engines()
        if port in spec.ports and not spec.floor and is_own(spec) and not spec.listing.untested
    ]


def stores(every: Iterable[EngineSpec], options: Options) -> Iterator[Store]:
    for spec in every:
        yield from (Store(spec, tier) for tier in spec.tiers)
        for given in options.get(spec.name, ()):
            assert spec.default_tier is not None
            yield Store(spec, spec.default_tier, given)


def at_default_tier_of_server(store: Store) -> bool:
    """Returns False for other tiers of a server than its default. They differ in settings alone, which the suite sql
    and the proofs of flushes check.
    """
    return store.spec.server is None or store.tier is store.spec.default_tier


def unstored(spec: EngineSpec, port: str, home: Path) -> Callable[[str], AbstractContextManager[Any]]:
    """Opens the port of an engine that stores nothing, with default options."""

    @contextmanager
    def connect(name: str) -> Iterator[Any]:
        with (
            closing(spec.opener(home, None, spec.resolve({}))) as engine,
            closing(spec.ports[port].open(engine)) as opened,
        ):
            yield opened

    return connect


def holds(store: Store, place: Path, *, port: str, look: str) -> None:
    """Asserts that every check of the port passes except the engine's gaps. One of the checks creates the store
    `look`, for which the engine reports its version, settings and files.
    """
    store.need()
    job = {
        "engine": store.spec.name,
        "port": port,
        "checks": CHECKS.format(port),
        "tier": store.tier.value,
        "options": dict(store.given),
        "home": str(place),
        "look": look,
    }
    python = str(store.spec.interpreter() or sys.executable)
    done = subprocess.run(
        [python, portchecks.__file__],
        input=json.dumps(job) + "\n",
        env=with_this_dyno(),
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert_only_gaps(store.spec, store.tier, json.loads(done.stdout.splitlines()[-1]))


def assert_only_gaps(spec: EngineSpec, tier: Tier, results: dict[str, Any]) -> None:
    """Asserts that only the engine's gaps failed, and that it reported its version, settings and files."""
    version, settings, files = (results.pop(name) for name in ("version", "settings", "files"))
    gaps = {gap.check for gap in spec.gaps}
    failed = {name: why for name, why in results.items() if why is not None}
    assert {name: why for name, why in failed.items() if name not in gaps} == {}
    assert gaps <= set(failed), "a gap that works now: unmark it"
    assert any(character.isdigit() for character in version)
    wanted = {name: str(value) for name, value in spec.tiers[tier].items()}
    assert {name: str(value) for name, value in settings.items() if name in wanted} == wanted
    # At tier volatile a database may be in memory.
    assert bool(files) != spec.in_memory or tier is Tier.VOLATILE
