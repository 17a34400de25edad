"""What the shell offers on the Tab key where it isn't a file: names that Dyno knows. Nothing is imported before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from dyno.contracts.suite import Suite

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offer(known: Callable[[click.Context], Iterable[str]], several: bool = False, files: bool = False) -> Offer:
    """Offers names, of which `several` may stand one behind the other with commas; and files too."""

    def offered(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        before, comma, last = begun.rpartition(",") if several else ("", "", begun)
        try:
            names = sorted(name for name in known(context) if name.startswith(last))
        except Exception:
            # A plug-in that can't be imported is told by commands, and not by a key.
            names = []
        found = [CompletionItem(f"{before}{comma}{name}") for name in names]
        return [*found, CompletionItem(begun, type="file")] if files else found

    return offered


def _suites(context: click.Context) -> list[str]:
    from dyno import registry

    return registry.names("suite")


def _every_engine(context: click.Context) -> list[str]:
    from dyno import registry

    return registry.names("engine")


def _suite() -> Suite:
    """The one that the line names, which click can't parse before its last flag has a value. Raises LookupError."""
    from dyno import registry

    known = registry.names("suite")
    named = [word for word in os.environ["COMP_WORDS"].split() if word in known]
    return registry.suite(named[0])


def _engines(context: click.Context) -> list[str]:
    """Those of the suite that stands before, or all."""
    from dyno import registry

    try:
        return [spec.name for spec in registry.engines_for(_suite())]
    except LookupError:
        return registry.names("engine")


def _phases(context: click.Context) -> list[str]:
    return [phase.name for phase in _suite().phases]


def _presets(context: click.Context) -> list[str]:
    return list(_suite().presets)


def _parameters(context: click.Context) -> list[str]:
    return [f"{setting.name}=" for setting in _suite().params]


def _tiers(context: click.Context) -> list[str]:
    from dyno.contracts.model import Tier

    return [tier.value for tier in Tier]


def _experiments(context: click.Context) -> Iterable[str]:
    from dyno import published

    return published.names()


def _listed(context: click.Context) -> list[str]:
    return ["suites", "engines", *_suites(context), *_every_engine(context)]


SUITE = _offer(_suites, files=True)
ENGINE = _offer(_every_engine)
ENGINES = _offer(_engines, several=True)
PHASES = _offer(_phases, several=True)
PRESET = _offer(_presets)
PARAMETER = _offer(_parameters)
TIER = _offer(_tiers)
EXPERIMENT = _offer(_experiments)
LISTED = _offer(_listed)
