"""Tests that cuts find planted defects of toy stores, and no defect in sound ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import toys
from needed import unavailable

from dyno.crash import recorder
from dyno.crash.model import State, draws, explain, shrink
from dyno.crash.record import CrashRecord

pytestmark = pytest.mark.usefixtures("processes")

STATES = 200
Recorder = Callable[[str], CrashRecord]
SEEDS = range(1, 6)
DEFECTS = [name for name in toys.STORES if name not in toys.SOUND]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Records each store once."""
    if why := recorder.explain_unavailability():
        unavailable(why)

    @cache
    def made(name: str) -> CrashRecord:
        place = tmp_path_factory.mktemp("toy")
        home = place / "home"
        home.mkdir()
        record = recorder.record_command([sys.executable, toys.__file__, name, str(home)], home, place / "record")
        assert (record.status, record.unseen) == (0, [])
        return record

    return made


def found(
    record: CrashRecord, name: str, model: str, seed: int, place: Path, enough: int = STATES
) -> list[tuple[State, str]]:
    """The wrong states among STATES drawn states, at most `enough` of them, with the reasons."""
    wrong: list[tuple[State, str]] = []
    for state in draws(record, model, seed, STATES):
        state.build(place)
        if why := toys.judged(name, place, state.acknowledged, state.begun):
            wrong.append((state, why))
            if len(wrong) == enough:
                break
    return wrong


@pytest.mark.claim("Power cuts find stores that lose acknowledged writes, and accuse no sound store")
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(recorded: Recorder, tmp_path: Path, name: str) -> None:
    record = recorded(name)
    wrong = found(record, name, "ext4", 1, tmp_path / "built", enough=1)
    assert wrong
    state, _ = wrong[0]

    def fails(other: State) -> bool:
        other.build(tmp_path / "built")
        return toys.judged(name, tmp_path / "built", other.acknowledged, other.begun) is not None

    small = shrink(state, fails)
    assert fails(small)
    assert len(small.lost_changes()) <= len(state.lost_changes())
    assert len(explain(small)) <= 4


@pytest.mark.claim("Power cuts find stores that lose acknowledged writes, and accuse no sound store")
@pytest.mark.parametrize("model", ["ext4", "ordered", "posix"])
@pytest.mark.parametrize("name", toys.SOUND)
def test_a_sound_store_loses_nothing(recorded: Recorder, tmp_path: Path, name: str, model: str) -> None:
    assert found(recorded(name), name, model, 1, tmp_path / "built") == []


@pytest.mark.soak
@pytest.mark.parametrize("model", ["ext4", "ordered", "posix"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", toys.STORES)
def test_every_seed_finds_exactly_the_defective_stores(
    recorded: Recorder, tmp_path: Path, name: str, seed: int, model: str
) -> None:
    wrong = found(recorded(name), name, model, seed, tmp_path / "built", enough=1)
    assert bool(wrong) == (name not in toys.SOUND)
