"""Every engine's own counters, on the real engine: all declared ones are read, and none ever shrinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from needed import require
from stores import Store, shared

from dyno import registry
from dyno.contracts.engine import EngineSpec
from dyno.contracts.suite import Job

pytestmark = pytest.mark.usefixtures("processes")

SPECS = {spec.name: spec for spec in registry.engines() if spec.counters is not None}


@contextmanager
def opened(spec: EngineSpec, home: Path) -> Iterator[Any]:
    """The engine, on a server that tests of its default options share."""
    assert spec.default_tier is not None
    store = Store(spec, spec.default_tier)
    home.mkdir()
    server = shared(store)
    job = Job(store.spec, home, store.tier, spec.resolve({}), {}, seed=1, clients=1, server=server)
    with closing(job.open(home)) as engine:
        yield engine


@pytest.mark.parametrize("name", SPECS)
def test_declared_counters_are_read_and_never_shrink(name: str, place: Path) -> None:
    spec = SPECS[name]
    require(spec)
    counters = spec.counters
    assert counters is not None
    with opened(spec, place / "store") as engine:
        before = counters.read(engine)
        if counters.publish is not None:
            counters.publish(engine)
        after = counters.read(engine)
    for counter in counters.counters:
        if "version" in counter.meaning and counter.name not in before:
            continue
        assert type(before[counter.name]) is int, counter
        assert 0 <= before[counter.name] <= after[counter.name], counter


@pytest.mark.parametrize("name", SPECS)
def test_declaration_of_counters_is_short_and_cited(name: str) -> None:
    spec = SPECS[name]
    spec.check(spec.ports)
    counters = spec.counters
    assert counters is not None
    assert 3 <= len(counters.counters) <= 16
    assert '"' in counters.source, "the document's title"
    for counter in counters.counters:
        assert len(counter.meaning) <= 100
        assert counter.unit != "bytes" or "bytes" not in counter.meaning
