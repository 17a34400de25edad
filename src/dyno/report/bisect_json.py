"""Keys of the JSON that `dyno bisect --json` prints, in their order.

docs/reference/bisect-json.md and `dyno schema bisect` follow from these types.
"""

from collections.abc import Mapping

from msgspec import Struct


class Change(Struct, frozen=True):
    """Ratio of the speeds of two versions, the later one's to the earlier one's."""

    earlier: str
    later: str
    ratio: float
    """Above 1, the later version is faster."""
    low: float
    high: float
    """Upper end of the interval, which begins at `low`. All intervals of a bisection hold together with 99 %."""


class BisectionStep(Struct, frozen=True):
    """Versions that were measured together."""

    run: str
    """The run file."""
    versions: list[str]
    """The first and the last version of the part that was cut, and from the second step on the middle between
    them."""
    kind: str
    """Verdict of the first step: `different` by more than the margin, or `alike`. Later ones: the change is in the
    `earlier` or the `later` part, or `alike` if no single version has a change above the margin. Any: `open`."""
    blocks: int
    """Blocks that the verdict is on."""
    change: Change | None
    """Difference of the two versions, or of the part with the change; null before the first verdict."""
    other: Change | None
    """Change of the other part, if it is larger than the margin, too: then there are several."""
    more: int | None
    """If open: the approximate number of further blocks that would decide; null if it is over a thousand."""
    text: str
    """The verdict in words."""


class Bisection(Struct, frozen=True):
    """The result of a bisection."""

    schema: int
    """Version of this format: 1."""
    engine: str
    margin: float
    """Differences up to this share count as none."""
    kind: str
    """`found`; `between` if versions within the change can't be measured; `alike` if there is no change above the
    margin; `gradual` if no single version has one; `open` if the time was up."""
    version: str | None
    """The first version with the change; null if none is named."""
    change: Change | None
    """From the version before; else of the versions between which the change is."""
    several: bool
    """Whether there are several changes, of which this one is the larger."""
    versions: list[str]
    """All versions, in the order of their releases."""
    left_out: Mapping[str, str]
    """Versions that can't be measured, each with the reason."""
    steps: list[BisectionStep]
    samples: int
    """Trials of all steps."""
    seconds: float
    """Time of the trials."""
    why: list[str]
    """Where the time of the change goes, in words; empty if no change was found."""
    text: str
    """The result in words."""
