"""What engines that compute on a GPU of NVIDIA's have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dyno.contracts.model import Value

UNTESTED = "no machine that tests it has a GPU"
DEVICES = Path("/dev")


def needs(options: Mapping[str, Value]) -> str | None:
    """A GPU, by the devices that its driver makes."""
    return None if any(DEVICES.glob("nvidia[0-9]*")) else "needs a GPU of NVIDIA's, with its driver"
