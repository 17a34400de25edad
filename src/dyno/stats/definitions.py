"""Compares the user's definitions of two runs: is the work the same, and do other texts prepare its tables?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dyno.contracts.model import UsageError
from dyno.contracts.settings import format_value
from dyno.results import Run, defined_work

PREPARING = ("schema", "after")
"""Keys of the texts that prepare the tables. An index or a type is a condition of the work, like a setting."""
VARIANTS, SETTINGS = "variants", "settings"
"""Keys of the variants, and of a variant's options of engines, which are part of its rows' names."""


def check_same_work(before: Run, after: Run) -> None:
    """Raises UsageError unless both runs did the same work. Of variants, only those of both runs count."""
    one, other = _work(before), _work(after)
    for key in {**one, **other}:
        variant_of_one = key.startswith(f"{VARIANTS}.") and not (key in one and key in other)
        if one.get(key) != other.get(key) and not variant_of_one:
            where = f"{before.plan.suite}.{key}"
            raise UsageError(f"{before.path} and {after.path} did other work: they differ in the definition, {where}")


def preparation_differences(before: Run, after: Run) -> Iterator[tuple[str, str | None, str | None]]:
    """Yields the texts that prepare the tables otherwise: the key ('after', 'after.mariadb'), and the statements that
    only the one run and only the other run has, shortened."""
    one, other = _preparation(before), _preparation(after)
    for key in {**one, **other}:
        left = _statements(one.get(key, ""))
        right = _statements(other.get(key, ""))
        if left != right:
            yield key, _list_differences(left, right), _list_differences(right, left)


def _work(run: Run) -> dict[str, object]:
    """Returns the definition without the texts that prepare the tables, and variants of it without settings."""
    definition = defined_work(run.header.definition)
    variants = {
        f"{VARIANTS}.{name}": {key: of for key, of in _mapping(variant).items() if key not in (*PREPARING, SETTINGS)}
        for name, variant in _mapping(definition.get(VARIANTS)).items()
    }
    return {**{key: value for key, value in definition.items() if key not in (*PREPARING, VARIANTS)}, **variants}


def _preparation(run: Run) -> dict[str, str]:
    """Returns the texts that prepare the tables, by key."""
    definition = defined_work(run.header.definition)
    variants = _mapping(definition.get(VARIANTS))
    parts = {"": definition, **{f"{VARIANTS}.{name}.": _mapping(variant) for name, variant in variants.items()}}
    return {
        f"{prefix}{key}{engine and '.'}{engine}": str(text)
        for prefix, part in parts.items()
        for key in PREPARING
        for engine, text in _mapping(part.get(key)).items()
    }


def _mapping(value: object) -> Mapping[str, object]:
    # Run files come from strangers.
    if isinstance(value, Mapping):
        return value
    return {}


def _statements(text: str) -> list[str]:
    return [" ".join(statement.split()) for statement in text.split(";") if statement.strip()]


def _list_differences(statements: Sequence[str], others: Sequence[str]) -> str | None:
    """Returns the statements that the others lack; all of them if only their order differs. None if
    there are none."""
    only = [statement for statement in statements if statement not in others]
    if set(statements) == set(others):
        only = list(statements)
    return format_value("; ".join(only)) or None
