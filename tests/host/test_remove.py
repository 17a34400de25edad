"""Tests that a directory of Dyno's is removed despite missing rights, flags and mounts, that nothing outside is
removed, and that a failure names the remedy in one line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from shell import kill_at_moments

from dyno.host import force_remove as module
from dyno.host.force_remove import remove
from dyno.runner.work_directory import (
    LOCK,
    NEW,
    NEW_SECONDS,
    PREFIX,
    WorkDirectory,
    directory,
    fast_root,
    find_dead,
    left_behind,
    sweep,
)

ROOT = os.geteuid() == 0
NOBODY = 65534


def tree(place: Path) -> Path:
    made = place / "made"
    (made / "inner" / "most").mkdir(parents=True)
    (made / "inner" / "most" / "file").write_text("x")
    (made / "link").symlink_to(place / "outside")
    return made


def test_directory_is_removed_but_link_target_is_kept(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    assert remove(tree(tmp_path)) is None
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "outside"]


def test_removal_of_missing_path_succeeds(tmp_path: Path) -> None:
    assert remove(tmp_path / "nothing") is None


def test_link_or_file_is_removed_without_link_target(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "file").touch()
    assert remove(tmp_path / "link") is None and remove(tmp_path / "file") is None
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
@pytest.mark.usefixtures("processes")
def test_directory_without_permissions_is_removed(tmp_path: Path) -> None:
    made = tree(tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        if ROOT:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    child = os.fork()
    if child == 0:
        # The child has no more rights than a user without root's capabilities.
        with suppress(BaseException):
            os.chdir(tmp_path)
            if ROOT:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            for path in (made / "inner" / "most", made / "inner", made):
                Path(path.relative_to(tmp_path)).chmod(0)
            os._exit(0 if remove(Path("made")) is None else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not made.exists()


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
def test_directory_with_remaining_mount_is_left_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tree(tmp_path)
    monkeypatch.setattr(module, "unmount", lambda path: [path / "inner"])
    told = remove(made)
    assert told == (
        f"{made} can't be removed: a file system is mounted at {made}/inner; unmount it and remove the directory"
    )
    assert (made / "inner" / "most" / "file").exists()


def test_failed_removal_names_path_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tree(tmp_path)

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(1, "Operation not permitted", str(made / "inner"))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    remedy = f"{'' if ROOT else 'as root, '}chattr -R -ia {made} && rm -r {made}"
    assert remove(made) == f"{made} can't be removed (Operation not permitted: {made}/inner); {remedy}"


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not ROOT or sys.platform != "linux", reason="only root may mount")
def test_mount_point_with_special_characters_is_unmounted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    place = tmp_path / "made" / "a b\tc\nd\\e\x85f\u2028g"
    place.mkdir(parents=True)
    if subprocess.run(["mount", "--bind", outside, place], capture_output=True).returncode:
        pytest.skip("nothing may be mounted here")
    assert remove(tmp_path / "made") is None
    assert (outside / "file").exists() and not (tmp_path / "made").exists()
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


# -- a run's directory ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[Path, WorkDirectory]]:
    told: list[str] = []
    with directory(tmp_path / "work", told.append) as place:
        yield tmp_path / "work", place
    assert (told, list((tmp_path / "work").glob("*"))) == ([], [])


def is_ours(work: Path, place: WorkDirectory) -> bool:
    """Returns whether a directory exists and is locked, so that no other run removes it."""
    return place.path.is_dir() and (place.path / LOCK).exists() and list(find_dead(work)) == []


def test_mend_keeps_existing_directory(run: tuple[Path, WorkDirectory]) -> None:
    (run[1].path / "kept").touch()
    run[1].mend()
    assert is_ours(*run) and (run[1].path / "kept").exists()


@pytest.mark.claim("Whatever one engine does, the others are measured")
def test_mend_recreates_and_locks_removed_directory(run: tuple[Path, WorkDirectory]) -> None:
    path = run[1].path
    assert remove(path) is None
    run[1].mend()
    assert is_ours(*run) and run[1].path == path


def test_mend_replaces_link_or_unlocked_directory(run: tuple[Path, WorkDirectory], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    remove(run[1].path)
    run[1].path.symlink_to(outside)
    run[1].mend()
    assert is_ours(*run) and not run[1].path.is_symlink()
    assert outside.stat().st_mode & 0o777 == 0o700
    remove(run[1].path)
    run[1].path.mkdir()
    run[1].mend()
    assert is_ours(*run)


@pytest.mark.claim("A trial's directory is removed, without anything mounted in it")
def test_unremovable_leftover_of_earlier_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, told = tmp_path / "dyno-run-old\x1b", list[str]()
    left.mkdir(0o700)
    (left / LOCK).touch()
    monkeypatch.setattr(
        "dyno.runner.work_directory.remove", lambda path: f"{path} can't be removed" if path == left else None
    )
    with directory(tmp_path, told.append):
        pass
    assert told == [f"{tmp_path}/dyno-run-old\\x1b can't be removed"]


@pytest.mark.usefixtures("processes")
def test_sweep_removes_partly_created_or_removed_directories(tmp_path: Path) -> None:
    def churn() -> None:
        work = WorkDirectory(tmp_path)
        for number in range(200):
            (work.path / str(number)).touch()
        work.close()

    kill_at_moments(churn, 12)
    assert list(tmp_path.iterdir()) != []
    for path in tmp_path.iterdir():
        # Creation takes less than this age.
        os.utime(path, (0, 0))
    sweep(tmp_path, pytest.fail)
    assert list(tmp_path.iterdir()) == []


def test_run_directory_lock_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, no later run would remove the rest."""
    work, names = WorkDirectory(tmp_path), list[list[str]]()
    for number in range(3):
        (work.path / str(number)).mkdir()

    def recorded(path: Path) -> str | None:
        names.append(sorted(child.name for child in work.path.iterdir()))
        return remove(path)

    monkeypatch.setattr("dyno.runner.work_directory.remove", recorded)
    assert work.close() is None
    assert names[-1] == [LOCK]


@pytest.mark.parametrize(("name", "age", "stays"), [(NEW, 0, True), (NEW, NEW_SECONDS, False), (PREFIX, 0, False)])
def test_unlocked_directory_is_swept_unless_new(tmp_path: Path, name: str, age: int, stays: bool) -> None:
    made = tmp_path / f"{name}x"
    made.mkdir(0o700)
    now = made.stat().st_mtime
    os.utime(made, (now - age, now - age))
    sweep(tmp_path, pytest.fail)
    assert made.exists() == stays


def test_link_replacing_run_directory_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").touch()
    work = WorkDirectory(tmp_path / "work")
    remove(work.path)
    work.path.symlink_to(tmp_path / "outside")
    assert work.close() is None
    assert (tmp_path / "outside" / "file").exists()


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Directory left by a killed run in a world-writable work directory."""
    tmp_path.chmod(0o1777)
    made = tmp_path / "dyno-run-left"
    made.mkdir(0o700)
    (made / LOCK).touch()
    return made


def swept(root: Path) -> tuple[list[Path], list[str]]:
    told: list[str] = []
    return sweep(root, told.append), told


@pytest.mark.skipif(not ROOT, reason="only root may give a directory to another user")
def test_sweep_ignores_directory_of_another_user(left: Path) -> None:
    os.chown(left, NOBODY, NOBODY)
    assert swept(left.parent) == ([], [])
    assert left_behind(left.parent) == {"directories": [], "servers": []}
    assert left.exists()
    os.chown(left, 0, 0)
    assert swept(left.parent) == ([left], [])


@pytest.mark.parametrize("others", [0o770, 0o707])
def test_directory_writable_by_others_is_reported_not_swept(left: Path, others: int) -> None:
    left.chmod(others)
    found, (told,) = swept(left.parent)
    assert (found, left.exists()) == ([], True)
    assert f"rm -r {left}" in told


def test_sweep_ignores_link_to_own_directory(left: Path, tmp_path: Path) -> None:
    real = left.rename(tmp_path / "mine")
    left.symlink_to(real)
    assert swept(tmp_path) == ([], [])
    assert real.exists() and left.is_symlink()


def test_memory_directory_is_private_to_current_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyno.runner.work_directory.MEMORY", tmp_path)
    fast = tmp_path / f"dyno-{os.geteuid()}"
    assert fast_root(tmp_path / "work") == fast
    fast.chmod(0o777)
    assert fast_root(tmp_path / "work") == fast
    assert not fast.stat().st_mode & 0o022
    if ROOT:
        os.chown(fast, NOBODY, NOBODY)
        assert fast_root(tmp_path / "work") == tmp_path / "work"
    fast.rmdir()
    (tmp_path / "others").mkdir()
    fast.symlink_to(tmp_path / "others")
    assert fast_root(tmp_path / "work") == tmp_path / "work"
