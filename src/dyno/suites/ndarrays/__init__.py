"""N-dimensional arrays: how fast are slices along each axis read, by the shape of the chunks, cold and hot?"""

from functools import partial

from dyno.contracts.model import Phase, Preset, Value
from dyno.contracts.settings import Setting, integer
from dyno.contracts.suite import Suite

MOST_AXES, AXES_BY_DEFAULT = 4, 3
_length = integer(1, 1 << 23)


def lengths(text: Value) -> tuple[int, ...]:
    """Returns the length of each axis: '64x64x64'. Raises ValueError."""
    parts = str(text).split("x")
    if len(parts) > MOST_AXES:
        raise ValueError(f"expected at most {MOST_AXES} axes")
    return tuple(int(_length(part)) for part in parts)


def _shape(text: str) -> Value:
    """Returns the canonical text of a shape."""
    return "x".join(map(str, lengths(text)))


def phase_of(axis: int, temperature: str) -> str:
    return f"read-axis-{axis}-{temperature}"


_AXES = range(MOST_AXES)
_HOT = tuple(phase_of(axis, "hot") for axis in _AXES)
_phase = partial(Phase, metric="bandwidth", checked="every value")
_read = partial(_phase, unit="slice", writes=False)
_BLOCKS = "every value of some blocks"
_CHUNKS = ("64x64x64", "1x1024x1024", "1024x32x32")

PRESETS = {
    "quick": Preset({}, samples=3, budget=2, timeout=120),
    "standard": Preset({"shape": "512x512x512"}, samples=5, budget=30, timeout=600),
    # 4 GiB: balanced chunks, and those for slices of the first axis, and for series along it.
    "full": Preset({"shape": "1024x1024x1024", "chunks": _CHUNKS, "slices": 2}, samples=3, budget=60, timeout=3_600),
}


class NdarraysSuite(Suite):
    name = "ndarrays"
    title = "an N-dimensional array in chunks: written, and read in slices along each axis, cold and hot"
    ports = ("ndarrays",)
    params = (
        Setting("shape", _shape, "256x256x256", "of the array of 32-bit floats: the length of each axis"),
        Setting("chunks", _shape, "64x64x64", "shape of a chunk; equal to shape: not chunked"),
        Setting("slices", integer(1, 1_000_000), 10, "slices to read in a hot phase", phases=_HOT),
    )
    presets = PRESETS
    phases = (
        _phase("write", "write all chunks, in blocks of whole chunks", unit="block", writes=True, checked=_BLOCKS),
        *(
            _read(phase_of(axis, temperature), title, temperature=temperature, by_default=axis < AXES_BY_DEFAULT)
            for axis in _AXES
            for temperature, title in (
                ("cold", f"read one slice at an index of axis {axis}, from the device"),
                ("hot", f"read slices at random indexes of axis {axis}"),
            )
        ),
    )


SUITE = NdarraysSuite()
