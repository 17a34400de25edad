"""Seeded noise, distributed like that of trials on a real machine, for the tests of coverage. Not a test itself.

Each kind of noise returns an array of speeds around 1; `median` is its true median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray[Any, Any]]
MANY = 1_000_000


def _even(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Log-normal: slow and fast trials are equally frequent."""
    return np.exp(0.03 * random.standard_normal(shape))


def _contaminated(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Most trials are alike; one in seven is slowed down by about a third, when others were at work."""
    slowed = np.where(random.random(shape) < 0.15, random.exponential(0.3, shape), 0.0)
    return np.exp(0.02 * random.standard_normal(shape)) / (1 + slowed)


def _slowed(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """No trial is faster than the machine allows; each is slowed down by its own exponential share."""
    return 1 / (1 + random.exponential(0.05, shape))


def _modes(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Three trials in ten run in a slower mode, such as of a processor's clock or of a layout in memory."""
    mode = np.where(random.random(shape) < 0.3, 0.85, 1.0)
    return mode * np.exp(0.02 * random.standard_normal(shape))


def _halves(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Two modes of equal weight: hardly any trials are near the median."""
    mode = np.where(random.random(shape) < 0.5, 0.85, 1.0)
    return mode * np.exp(0.02 * random.standard_normal(shape))


@dataclass(frozen=True)
class Noise:
    name: str
    draw: Draw

    @property
    def median(self) -> float:
        return float(np.median(self.draw(np.random.default_rng(0), (MANY,))))


EVEN, CONTAMINATED, SLOWED = Noise("even", _even), Noise("contaminated", _contaminated), Noise("slowed", _slowed)
MODES, HALVES = Noise("modes", _modes), Noise("halves", _halves)
KINDS = (EVEN, CONTAMINATED, SLOWED, MODES)
