"""Finds out whether two runs that had an environment each ran the same files of the user's code."""

from collections.abc import Hashable, Mapping

from dyno.contracts.imported_code import ImportedCode, from_facts
from dyno.contracts.model import UsageError
from dyno.results import Run
from dyno.stats.summary import CellSummary

Rows = Mapping[tuple[Hashable, ...], CellSummary]


def shared_files(before: Run, after: Run, old: Rows, new: Rows) -> tuple[str, ...]:
    """Returns the files that both runs imported although they had different environments. Empty for runs in one
    environment, or without imported code. Raises UsageError, since there is nothing to compare, if no row ran another
    file, another content of the same file, or another Python in one run than in the other."""
    shared: dict[str, None] = {}
    code: tuple[ImportedCode, ImportedCode] | None = None
    differ = False
    for key in old.keys() & new.keys():
        sides = from_facts(old[key].trial_facts), from_facts(new[key].trial_facts)
        if sides[0] is None or sides[1] is None or sides[0].environment == sides[1].environment:
            continue
        code = sides[0], sides[1]
        differ |= sides[0].modules != sides[1].modules or old[key].version != new[key].version
        shared |= dict.fromkeys(module.file for module in sides[0].modules if module in sides[1].modules)
    if code is not None and not differ:
        places = " and ".join(each.environment for each in code)
        raise UsageError(
            f"{before.path} and {after.path} ran the same code, {', '.join(sorted(shared))}, in two environments,"
            f" {places}: install each side's package in its environment"
        )
    return tuple(sorted(shared))
