"""A row of a plan: an engine with its requested options, and its variants of the user's definition."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import BASE, SETTINGS, VARIANT, Tier, UsageError, Value
from dyno.contracts.roles import Variant, variants_of
from dyno.contracts.suite import Suite
from dyno.servers import set_option

GOOD_LABEL = re.compile(r"[A-Za-z0-9][\w. -]{0,39}", re.ASCII)


class EngineRow(NamedTuple):
    """An engine of a plan, with its requested options."""

    spec: EngineSpec
    options: dict[str, Value]
    tier: Tier | None
    follows: bool = False
    """See `Cell.follows`."""
    label: str | None = None


def check_tier(spec: EngineSpec, tier: Tier | None, options: Mapping[str, Value]) -> None:
    """Raises UsageError if the engine can't provide the tier with these options."""
    if tier is None:
        return
    if not spec.tiers:
        raise UsageError(f"engine {spec.name} stores nothing in this suite and has no tiers: leave the tier out")
    if tier not in spec.tiers:
        gives = ", ".join(given.value for given in spec.tiers)
        raise UsageError(f"engine {spec.name} can't give tier {tier.value}; it gives: {gives}")
    if why := spec.refusal(tier, options):
        raise UsageError(f"engine {spec.name}: {why}")


def with_variants(suite: Suite, rows: Sequence[EngineRow]) -> list[EngineRow]:
    """Returns the rows, each followed by its variants of the definition, unless the user chose the row's variant.
    Raises UsageError."""
    variants = variants_of(suite)
    every = list[EngineRow]()
    for row in rows:
        chosen = row.options.get(VARIANT)
        names = [name for name, each in variants.items() if each.everywhere or row.spec.name in each.options]
        for name in [BASE, *names] if chosen is None else [str(chosen)]:
            with name_variant(name):
                if name == BASE:
                    each = row
                else:
                    each = _of_variant(row, name, variants[name])
            if each not in every:
                every.append(each)
    return every


@contextmanager
def name_variant(variant: str) -> Iterator[None]:
    """Names the variant in the message of a UsageError."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"variant {variant}: {error}" if variant != BASE else str(error)) from None


def _of_variant(row: EngineRow, name: str, variant: Variant) -> EngineRow:
    """Returns the row with the variant's options. Raises UsageError."""
    declared = variant.options.get(row.spec.name, {})
    for setting in row.spec.options:
        if setting.address and setting.name in declared:
            raise UsageError(f"{setting.name} is an address, which a definition can't have: give it to the engine")
    values = row.spec.resolve(declared)
    further = {option: values[option] for option in declared}
    own = row.options.items() - further.items() - {(VARIANT, name)}
    if SETTINGS in further and SETTINGS in row.options:
        settings = {**set_option.get_settings(row.options), **set_option.get_settings(further)}
        further[SETTINGS] = shlex.join(f"{each}={value}" for each, value in settings.items())
    options = {**row.options, **further, VARIANT: name}
    resolved = row.spec.resolve(options)
    if lacking := row.spec.explain_unavailability(resolved):
        raise UsageError(f"engine {row.spec.name} {lacking}")
    check_tier(row.spec, row.tier, resolved)
    label = row.label
    if label is not None and VARIANT not in row.options:
        label = f"{label} {name}"
        if not GOOD_LABEL.fullmatch(label):
            raise UsageError(f"label {label} is too long: expected at most 40 characters")
    elif label is None and further and not own:
        # The variant's own options need not be in the label.
        label = f"{row.spec.name} {name}"
    return row._replace(options={option: resolved[option] for option in options}, label=label)
