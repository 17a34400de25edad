"""Exports the profiles of a run for viewers of flame graphs."""

import json

from dyno.contracts.model import UsageError
from dyno.contracts.profile import Frame
from dyno.report.tables import units
from dyno.report.tables.table import varying_params
from dyno.results import Run
from dyno.stats.profile import RowProfile, list_profiles

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def folded(run: Run) -> str:
    """Returns the stacks of all rows, a line each with its number of samples, as flamegraph.pl and inferno read them.
    The outermost function of each is the row."""
    lines = []
    for profile in _load_profiles(run):
        name = name_profile(run, profile)
        for stack, count in profile.stacks.items():
            # A semicolon separates functions.
            texts = [text.replace(";", ",") for text in (name, *map(name_frame, stack))]
            lines.append(f"{';'.join(texts)} {count}")
    return "\n".join(lines) + "\n"


def speedscope(run: Run) -> str:
    """Returns speedscope's JSON, with a profile for each row."""
    numbers: dict[Frame, int] = {}
    profiles = []
    for profile in _load_profiles(run):
        stacks = profile.stacks
        for stack in stacks:
            for frame in stack:
                numbers.setdefault(frame, len(numbers))
        profiles.append(
            {
                "type": "sampled",
                "name": name_profile(run, profile),
                "unit": "none",
                "startValue": 0,
                "endValue": profile.samples,
                "samples": [[numbers[frame] for frame in stack] for stack in stacks],
                "weights": list(stacks.values()),
            }
        )
    frames = [{"name": function, "file": library} for library, function in numbers]
    data = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": run.path.name,
        "exporter": "dyno",
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(data, ensure_ascii=False) + "\n"


def _load_profiles(run: Run) -> list[RowProfile]:
    """Raises UsageError for a run without profiles."""
    profiles = [profile for profile in list_profiles(run) if profile.samples]
    if not profiles:
        raise UsageError(f"{run.path} has no profiles: `dyno run --profile` adds them, also with --resume")
    return profiles


def name_profile(run: Run, profile: RowProfile) -> str:
    params = units.params(profile.cell.params, varying_params(run))
    return "/".join(filter(None, [profile.phase, profile.cell.label, params]))


def name_frame(frame: Frame) -> str:
    library, function = frame
    if library == function:
        return function
    return f"{library}`{function}"
