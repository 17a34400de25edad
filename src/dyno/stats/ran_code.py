"""Finds out whether two runs that had an environment each ran the same files of the user's code."""

from collections.abc import Hashable, Mapping

from dyno.contracts.imported_code import ImportedCode, from_facts
from dyno.contracts.model import UsageError
from dyno.results import Run
from dyno.stats.summary import CellSummary

Rows = Mapping[tuple[Hashable, ...], CellSummary]


def shared_files(before: Run, after: Run, old: Rows, new: Rows) -> tuple[str, ...]:
    """Returns the files that both runs imported although they had different environments. Empty for runs in one
    environment, or without imported code. Raises UsageError if no row ran another file, or under another Python, in
    one run than in the other: then nothing is compared."""
    shared: dict[str, None] = {}
    code: tuple[ImportedCode, ImportedCode] | None = None
    differ = False
    for key in old.keys() & new.keys():
        sides = from_facts(old[key].trial_facts), from_facts(new[key].trial_facts)
        if sides[0] is None or sides[1] is None or sides[0].environment == sides[1].environment:
            continue
        code = sides[0], sides[1]
        differ |= sides[0].files != sides[1].files or old[key].version != new[key].version
        shared |= dict.fromkeys(file for name, file in sides[0].files.items() if sides[1].files.get(name) == file)
    if code is not None and not differ:
        places = " and ".join(each.environment for each in code)
        raise UsageError(
            f"{before.path} and {after.path} ran the same code, {', '.join(sorted(shared))}, in two environments,"
            f" {places}: install each side's package in its environment"
        )
    return tuple(sorted(shared))
