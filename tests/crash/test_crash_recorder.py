"""Tests that the record has every change of files by any call, thread or process, byte by byte. A call that can't be
recorded is refused, or the record says that a change is missing.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path

import calling
import msgspec
import pytest
from needed import unavailable

from dyno.crash import recorder
from dyno.crash.model import draws
from dyno.crash.record import CrashRecord, Create, Flush, Hint, Mark, Unlink, Write, read, replay_record

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(autouse=True)
def able() -> None:
    if why := recorder.explain_unavailability():
        unavailable(why)


def called(place: Path, *words: str) -> CrashRecord:
    """Records the program calling.py in the directory `home`."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    command = [sys.executable, calling.__file__, *words, str(home)]
    return recorder.record_command(command, home, place / "record")


def ran(place: Path, code: str) -> CrashRecord:
    """Records a line of Python that changes files in the directory h."""
    (place / "h").mkdir(exist_ok=True, parents=True)
    command = [sys.executable, "-c", f"import os, sys\nos.chdir({str(place)!r})\n{code}"]
    return recorder.record_command(command, place / "h", place / "record")


def there(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def kept(record: CrashRecord) -> dict[str, bytes]:
    names, contents = replay_record(record)
    found = {name: node for name, node in names.items() if node.kind == "file"}
    return {name: bytes(contents.get(node.number, record.first(node.number))) for name, node in found.items()}


@pytest.mark.claim("A file change that the recorder can't see is refused or noted in the record")
@pytest.mark.parametrize("name", [name for name in calling.CHANGES if name != "dies"])
def test_a_change_by_any_call_is_recorded(place: Path, name: str) -> None:
    record = called(place, name)
    assert (record.status, record.unseen) == (0, [])
    expected = there(place / "home")
    assert expected and {path: data for path, data in kept(record).items() if path in expected} == expected
    assert (record.refused == []) == (name != "refused")
    # Builds the state that keeps all changes.
    (place / "built").mkdir()
    last = [state for state in draws(record, "posix", 1, 30, birth=True) if state.kind == "keep"]
    for state in last:
        state.build(place / "built")


@pytest.mark.claim("A file change that the recorder can't see is refused or noted in the record")
def test_unrecordable_calls_are_refused(place: Path) -> None:
    record = called(place, "refused")
    assert record.refused == ["fallocate", "io_setup", "io_uring_setup", "ioctl of a reflink", "rename"]


def test_flushes_are_recorded_with_their_files(place: Path) -> None:
    record = called(place, "flushes")
    file = next(event.file for event in record.events if isinstance(event, Create))
    told = [(event.call, event.file) for event in record.events if isinstance(event, Flush | Hint)]
    assert told == [
        ("fsync", file),
        ("fdatasync", file),
        ("sync", None),
        ("syncfs", None),
        ("sync_file_range", file),
        ("fsync", 0),
        ("msync", file),
        ("msync(MS_ASYNC)", file),
    ]


def test_synchronous_writes_are_marked_durable(place: Path) -> None:
    def durable(name: str) -> list[bytes]:
        (place / name).mkdir()
        writes = [event for event in called(place / name, name).events if isinstance(event, Write)]
        return [event.data for event in writes if event.durable]

    assert durable("writes") == [b"eight"]
    assert durable("duplicates") == [b"one", b"two"]


def test_mapping_stores_are_recorded_when_detected(place: Path) -> None:
    record = called(place, "mapped")
    stores = [event for event in record.events if isinstance(event, Write) and event.call == "mapping"]
    assert [(store.offset, store.data) for store in stores] == [
        (10, b"one"),
        (calling.PAGE - 2, b"fo"),
        (calling.PAGE, b"ur"),
        (3 * calling.PAGE + 2, b"A"),
        (4 * calling.PAGE, b"B"),
    ]
    assert all(store.begin == store.end for store in stores)


def test_a_program_that_is_killed_leaves_its_record(place: Path) -> None:
    record = called(place, "dies")
    assert (record.status, kept(record)) == (-9, {"f": b"before"})


def test_marks_keep_their_order_among_calls(place: Path) -> None:
    code = "open('h/f', 'w').write('x'); os.access('/dyno-mark/7/begin', 0); os.access('/dyno-mark/7/end', os.F_OK)"
    record = ran(place, code + "; os.access('/dyno-mark', 0); os.unlink('h/f')")
    told = [event for event in record.events if isinstance(event, Write | Mark | Unlink)]
    assert [type(event) for event in told] == [Write, Mark, Mark, Unlink]
    assert [(mark.number, mark.which) for mark in record.marks] == [(7, "begin"), (7, "end")]
    assert all(one.end < other.begin for one, other in pairwise(told))


def test_existing_files_form_the_base_state(place: Path) -> None:
    (place / "h/sub").mkdir(parents=True)
    (place / "h/sub/f").write_bytes(b"before")
    (place / "h/sub/f").chmod(0o600)
    os.link(place / "h/sub/f", place / "h/g")
    (place / "h/s").symlink_to("g")
    record = ran(place, "open('h/g', 'r+').write('BE')")
    assert record.unseen == []
    state = next(state for state in draws(record, "ext4", 1, 10, birth=True))
    state.build(place / "built")
    assert there(place / "built") == {"g": b"before", "s": b"before", "sub/f": b"before"}
    assert (place / "built/g").samefile(place / "built/sub/f")
    assert (place / "built/g").stat().st_mode & 0o777 == 0o600
    assert str((place / "built/s").readlink()) == "g"


def test_nothing_outside_the_directory_is_recorded(place: Path) -> None:
    code = "os.mkdir('c'); [open(n + '/f', 'w').write(n) for n in ('h', 'c')]; os.rename('h/f', 'c/g')"
    record = ran(place, code)
    assert (record.status, record.unseen, kept(record)) == (0, [], {})
    assert [event.call for event in record.events if isinstance(event, Unlink)] == ["rename"]


@pytest.mark.claim("A file change that the recorder can't see is refused or noted in the record")
def test_unseen_changes_are_noted_in_the_record(place: Path) -> None:
    """A directory moved in from elsewhere contains files that were not recorded."""
    record = ran(place, "os.mkdir('o'); open('o/f', 'w').write('x'); os.rename('o', 'h/o')")
    assert any("a directory was moved here" in line for line in record.unseen)
    assert any("what is in o/f at the end is not what was recorded" in line for line in record.unseen)


def test_events_file_reads_back_unchanged(place: Path) -> None:
    record = called(place, "names")
    assert sorted(read(place / "record/events"), key=lambda event: event.end) == record.events


def test_truncated_events_file_is_refused(place: Path) -> None:
    called(place, "writes")
    events = place / "record/events"
    events.write_bytes(events.read_bytes()[:-1])
    with pytest.raises(msgspec.DecodeError, match="cut off"):
        read(events)


def test_program_exceeding_the_timeout_is_ended(place: Path) -> None:
    (place / "h").mkdir()
    with pytest.raises(TimeoutError, match=r"sleep was not done after 0\.2 s"):
        recorder.record_command(["sleep", "600"], place / "h", place / "record", timeout_seconds=0.2)


def test_missing_program_is_named_in_the_error(place: Path) -> None:
    with pytest.raises(RuntimeError, match="there is no program dyno-no-such-program"):
        recorder.record_command(["dyno-no-such-program"], place, place.parent / f"{place.name}-record")
