"""Profiled trials as tables: the libraries and functions in which a row's CPU time went, and its system calls."""

from collections.abc import Iterable, Sequence

from dyno.report import why_json
from dyno.report.tables import display, units
from dyno.report.tables.comparison import row_data
from dyno.report.tables.sections import Section
from dyno.results import Run
from dyno.stats.profile import ProfileChange, RowProfile, list_profiles, match_profiles
from dyno.stats.summary import group_values

MOST_FUNCTIONS_IN_JSON = 50
MOST_LIBRARIES = 4
MOST_FUNCTIONS = 4
MOST_CALLS = 6
MOST_WAITS = 6
LEAST = 0.01
"""Share of the CPU time from which on a library or a function is printed."""
LEAST_CALLS = 0.02
"""System calls of an item from which on they are printed."""
MEANS = (
    "Profiles: shares of the CPU time of one more trial, whose times are in no figure, in the functions of each"
    " library themselves. System calls: of a further trial, Dyno's own included."
)
LIBRARIES = "libraries"
FUNCTIONS = "functions"
WAITS = "waits of the server"
CALLS = "system calls of an item"
CHANGE_HEADS = ("engine", LIBRARIES, FUNCTIONS)
UNCHANGED = "nothing changed by 1 %"
HEADS: tuple[str, ...] = ("engine", "samples", LIBRARIES, FUNCTIONS)


def list_sections(run: Run, changing: Sequence[str]) -> list[Section]:
    """Returns a section for each phase and combination of parameters, with the profile of each row."""
    by_place = group_values((_place(profile, changing), profile) for profile in list_profiles(run))
    sections = []
    for place, profiles in by_place.items():
        heads = HEADS
        if any(profile.calls() for profile in profiles):
            heads = (*HEADS, CALLS)
        rows = [_row(profile)[: len(heads)] for profile in profiles]
        lines = [f"{profile.cell.label}: {text}" for profile in profiles if (text := describe_waits(profile))]
        title = f"profile of {place}"
        sections.append(Section(title, "", heads, rows, left=("engine", LIBRARIES, FUNCTIONS, CALLS), lines=lines))
    return sections


def list_changes(before: Run, after: Run, changing: Sequence[str]) -> list[Section]:
    """Returns a section for each phase and combination of parameters, with the libraries and functions of each row
    whose shares of the CPU time changed most."""
    changes = group_values((_place(change.after, changing), change) for change in match_profiles(before, after))
    return [
        Section(
            f"profile of {place}, before → after",
            "",
            CHANGE_HEADS,
            [_change_row(change) for change in of_place],
            left=CHANGE_HEADS,
        )
        for place, of_place in changes.items()
    ]


def _place(profile: RowProfile, changing: Sequence[str]) -> str:
    cell = profile.cell
    parts = (profile.phase, display.tier(cell.tier_name), units.params(cell.params, changing))
    return display.join_parts(*parts, between="  ")


def _change_row(change: ProfileChange) -> tuple[str, ...]:
    functions = [(f"{function} ({library})", pair) for (library, function), pair in change.functions().items()]
    return (
        change.after.cell.label,
        _list_changed_shares(list(change.libraries().items())[:MOST_LIBRARIES]),
        _list_changed_shares(functions[:MOST_FUNCTIONS]),
    )


def _list_changed_shares(shares: Iterable[tuple[str, tuple[float, float]]]) -> str:
    """Returns shares before and after as text, without those that hardly changed."""
    texts = [
        f"{before * 100:.0f} → {after * 100:.0f} % {name}"
        for name, (before, after) in shares
        if abs(after - before) >= LEAST
    ]
    return ", ".join(texts) or UNCHANGED


def list_missing(run: Run) -> list[str]:
    """Returns a line for each profile that failed or lacks a part."""
    lines = []
    for profiled in run.profiled:
        name = run.cells[profiled.cell].label
        if profiled.outcome != "ok":
            lines.append(f"{name}: its profiled trial failed: {profiled.outcome}: {profiled.why}")
        lines += [f"{name}: no profile of {line}" for line in profiled.missing]
    return lines


def profile_data(profile: RowProfile) -> why_json.Profile:
    """Returns the profile for `dyno why --json`."""
    functions = list(profile.functions().items())[:MOST_FUNCTIONS_IN_JSON]
    return why_json.Profile(
        **row_data(profile.phase, profile.cell),
        samples=profile.samples,
        libraries=profile.libraries(),
        functions=[why_json.Share(library, function, share) for (library, function), share in functions],
        waits=profile.waits() or {},
        system_calls=profile.calls(),
    )


def _row(profile: RowProfile) -> tuple[str, ...]:
    libraries = list(profile.libraries().items())[:MOST_LIBRARIES]
    functions = list(profile.functions().items())[:MOST_FUNCTIONS]
    named = [(f"{function} ({library})", share) for (library, function), share in functions]
    calls = [f"{number:.3g} {name}" for name, number in profile.calls().items() if number >= LEAST_CALLS]
    few = f"under {LEAST_CALLS}" if profile.calls() else units.UNKNOWN
    return (
        profile.cell.label,
        f"{profile.samples:,}",
        list_shares(libraries),
        list_shares(named),
        ", ".join(calls[:MOST_CALLS]) or few,
    )


def describe_waits(profile: RowProfile) -> str:
    """Returns what the busy sessions of the server waited for, as text; empty if that is unknown."""
    waits = profile.waits()
    if waits is None:
        return ""
    if not waits:
        return f"{WAITS}: no session was seen busy"
    return f"{WAITS}: {list_shares(list(waits.items())[:MOST_WAITS])} (seen {profile.waits_seen:,} times)"


def list_shares(shares: Iterable[tuple[str, float]]) -> str:
    """Returns shares as text, without those that are too small."""
    return ", ".join(f"{share * 100:.0f} % {name}" for name, share in shares if share >= LEAST)
