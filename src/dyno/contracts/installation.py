"""The modules, packages and programs of an engine, which `dyno install` installs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dyno.contracts.model import Value
from dyno.contracts.programs import Program


@dataclass(frozen=True)
class _Either:
    """Calls two `needs` functions and returns the first complaint. A dataclass, so that instances compare equal."""

    one: Callable[[Mapping[str, Value]], str | None]
    other: Callable[[Mapping[str, Value]], str | None]

    def __call__(self, options: Mapping[str, Value]) -> str | None:
        return self.one(options) or self.other(options)


@dataclass(frozen=True)
class Installation:
    """Everything that must be installed for an engine, or in addition for one of its ports."""

    modules: tuple[str, ...] = ()
    """Modules that must be importable."""
    requires: tuple[str, ...] = ()
    """Pip requirements in the form of PEP 508: 'lmdb>=1.4'."""
    builds: tuple[str, ...] = ()
    """Build requirements that pip installs first, if `requires` don't declare them. Only with `python`."""
    programs: tuple[Program, ...] = ()
    """Programs that `dyno install` builds or fetches."""
    packages: tuple[str, ...] = ()
    """Debian packages with the files that `needs` looks for."""
    python: str = ""
    """Python version, such as '3.10', of the environment in which the trials run. Empty: Dyno's environment."""
    needs: Callable[[Mapping[str, Value]], str | None] = lambda options: None
    """Called with all options; returns what is missing on this machine besides modules, with the remedy, or None."""

    def __add__(self, other: Installation) -> Installation:
        """Returns both installations as one, in this one's Python."""
        return Installation(
            modules=(*self.modules, *other.modules),
            requires=(*self.requires, *other.requires),
            builds=(*self.builds, *other.builds),
            programs=(*self.programs, *other.programs),
            packages=(*self.packages, *other.packages),
            python=self.python or other.python,
            needs=_Either(self.needs, other.needs),
        )


NOTHING = Installation()
"""The installation of an engine that needs nothing."""
