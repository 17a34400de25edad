"""The user's Python code that a trial has imported: environment, files and hashes, as facts of the trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dyno.contracts.decoded_types import Fact

ENVIRONMENT = "environment"
PREFIX = "imported."
FILE = ".file"
HASH = ".sha256"
"""Names of the facts: `environment`, and for each module `imported.NAME.file` and `imported.NAME.sha256`."""


@dataclass(frozen=True, slots=True)
class ImportedModule:
    name: str
    file: str
    """Absolute path."""
    sha256: str
    """First 16 digits of the hash of all source files of the module's package that were imported."""


@dataclass(frozen=True, slots=True)
class ImportedCode:
    environment: str
    """Absolute path of the Python environment (`sys.prefix`)."""
    modules: tuple[ImportedModule, ...]
    """The function's own module first."""

    def to_facts(self) -> dict[str, Fact]:
        facts: dict[str, Fact] = {ENVIRONMENT: self.environment}
        for module in self.modules:
            facts[f"{PREFIX}{module.name}{FILE}"] = module.file
            facts[f"{PREFIX}{module.name}{HASH}"] = module.sha256
        return facts


def from_facts(facts: Mapping[str, Fact]) -> ImportedCode | None:
    """Returns the code that the facts of a trial describe; None if they describe none, as in earlier versions."""
    environment = facts.get(ENVIRONMENT)
    if not isinstance(environment, str):
        return None
    modules = []
    for key, file in facts.items():
        if key.startswith(PREFIX) and key.endswith(FILE) and isinstance(file, str):
            name = key.removeprefix(PREFIX).removesuffix(FILE)
            modules.append(ImportedModule(name, file, str(facts.get(f"{PREFIX}{name}{HASH}") or "")))
    if modules:
        return ImportedCode(environment, tuple(modules))
    return None
