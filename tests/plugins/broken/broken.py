"""Test engines and suites, not real ones. Each has one error in its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dyno.contracts.engine import EngineSpec, Listing, ServerSpec
from dyno.contracts.installation import Installation
from dyno.contracts.model import Phase
from dyno.contracts.settings import Setting, integer
from dyno.engines import memory


def raises(*arguments: Any) -> Any:
    raise ZeroDivisionError("by design")


def engine(name: str, **wrong: Any) -> EngineSpec:
    return replace(memory.ENGINE, name=f"broken-{name}", listing=Listing(by_default=False), **wrong)


MODULES = engine("modules", installation=Installation(modules=None))
NEEDS = engine("needs", installation=Installation(needs=raises))
OBJECT = object()
OPTION = engine("option", options=(Setting("size", integer(1), 1, None),))  # type: ignore[arg-type]
PORTS = engine("ports", ports=None)
REFUSE = engine("refuse", refuse=raises)
STARTING = engine("starting", server=ServerSpec(raises, start_seconds=raises))
TITLE = engine("title", title=None)


class Broken:
    name = "broken-phase"
    title = "a suite with a phase without a unit"
    ports: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    params: tuple[Setting, ...] = ()
    presets: Mapping[str, Any] = {}
    phases = (Phase("sleep", "sleep", None),)  # type: ignore[arg-type]
    layout = None
    charts = ()
    proof = None


class Missing:
    name = "broken-missing"
    title = "a suite without all else"


PHASE, MISSING = Broken(), Missing()
