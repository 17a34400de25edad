"""Tests the rules for possible losses at a power cut, one by one, on records built by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from handmade import PAGE, Found, Tape, ends, held, states

from dyno.crash.model import MODELS, State, draws, explain, shrink
from dyno.crash.record import Flush, Mark, Write

pytestmark = pytest.mark.usefixtures("processes")

A, B, OLD = b"A" * PAGE, b"B" * PAGE, b"o" * PAGE
ALL = pytest.mark.parametrize("model", MODELS)


def files(*found: Found) -> list[list[str]]:
    return sorted(sorted(names) for names in found)


def data(found: list[Found], name: str = "f") -> set[bytes]:
    return {files[name] for files in found if name in files}


# -- names -----------------------------------------------------------------------------------------------------


@pytest.mark.claim("The crash model states what a power cut may lose, reorder and tear, and draws no other state")
@pytest.mark.parametrize("model", ["ext4", "ordered"])
def test_names_are_kept_in_their_order(model: str) -> None:
    assert files(*ends(Tape().create("a").create("b"), model)) == [[], ["a"], ["a", "b"]]


def test_names_are_kept_in_any_order_by_posix() -> None:
    assert files(*ends(Tape().create("a").create("b"), "posix")) == [[], ["a"], ["a", "b"], ["b"]]


def test_posix_keeps_changes_of_one_name_in_order() -> None:
    tape = Tape().create("a").unlink("a").create("a").create("b").unlink("b")
    assert files(*ends(tape, "posix")) == [[], ["a"], ["a", "b"], ["b"]]


@ALL
def test_rename_is_atomic(model: str) -> None:
    found = ends(Tape(a=b"new", b=b"old").rename("a", "b"), model)
    assert sorted(found, key=len) == [{"b": b"new"}, {"a": b"new", "b": b"old"}]


@ALL
def test_a_flushed_directory_has_its_names(model: str) -> None:
    assert files(*ends(Tape().create("a").create("b").flush("fsync", "."), model)) == [["a", "b"]]


def test_flush_of_another_directory_persists_names_in_ext4() -> None:
    tape = Tape().create("d", "directory").flush("fsync", ".").create("a").create("d/b").flush("fsync", "d")
    assert files(*ends(tape, "ext4")) == [["a", "d/b"]]
    assert files(*ends(tape, "posix")) == [["a", "d/b"], ["d/b"]]


@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_new_files_flush_persists_its_name_in_ext4(call: str) -> None:
    tape = Tape().create("a").create("f").write("f", 0, A).flush(call, "f").create("b")
    assert files(*ends(tape, "ext4")) == [["a", "b", "f"], ["a", "f"]]
    assert [] in files(*ends(tape, "posix"))


def test_flush_without_metadata_change_persists_no_names() -> None:
    tape = Tape(f=OLD, old=b"").unlink("old").write("f", 0, A).flush("fsync", "f")
    assert files(*ends(tape, "ext4")) == [["f"], ["f", "old"]]


def test_flush_of_a_grown_file_persists_names() -> None:
    tape = Tape(f=OLD, old=b"").unlink("old").write("f", PAGE, A).flush("fdatasync", "f")
    assert files(*ends(tape, "ext4")) == [["f"]]


def test_fsync_but_not_fdatasync_persists_a_rename() -> None:
    tape = Tape(f=OLD).rename("f", "g")
    assert files(*ends(Tape(f=OLD).rename("f", "g").flush("fsync", "g"), "ext4")) == [["g"]]
    assert files(*ends(tape.flush("fdatasync", "g"), "ext4")) == [["f"], ["g"]]


@ALL
@pytest.mark.parametrize("call", ["sync", "syncfs"])
def test_sync_persists_names_and_bytes(call: str, model: str) -> None:
    assert ends(Tape().create("f").write("f", 0, A).flush(call), model) == [{"f": A}]


def test_file_in_a_lost_directory_is_lost() -> None:
    tape = Tape().create("d", "directory").create("d/f").write("d/f", 0, A).flush("fsync", "d/f").flush("fsync", "d")
    assert files(*ends(tape, "posix")) == [[], ["d/f"]]
    assert files(*ends(tape, "ext4")) == [["d/f"]]


@ALL
def test_hard_and_symbolic_links_persist_as_names(model: str) -> None:
    tape = Tape(f=OLD).link("f", "g").create("s", "symlink", "f").flush("fsync", ".")
    state = next(state for state in states(tape, model) if "s" in state.files)
    assert held(state) == {"f": OLD, "g": OLD}
    assert state.files["s"][0].target == "f"


# -- bytes -----------------------------------------------------------------------------------------------------


@ALL
def test_overwritten_pages_are_kept_in_any_order(model: str) -> None:
    found = data(ends(Tape(f=OLD * 2).write("f", 0, A).write("f", PAGE, B), model))
    assert {OLD * 2, A + OLD, OLD + B, A + B} <= found


@ALL
def test_only_one_page_is_torn_at_sector_boundaries(model: str) -> None:
    found = data(ends(Tape(f=OLD * 2).write("f", 0, A + B), model))
    torn = [[image[at : at + 512] for at in range(0, 2 * PAGE, 512)] for image in found]
    assert all(set(sector) in ({b"A"[0]}, {b"B"[0]}, {b"o"[0]}) for image in torn for sector in map(set, image))
    mixed = [(len(set(image[:8])) > 1, len(set(image[8:])) > 1) for image in torn]
    assert (True, False) in mixed and (False, True) in mixed and (True, True) not in mixed


@ALL
def test_writes_to_one_page_persist_in_order(model: str) -> None:
    found = data(
        ends(Tape(f=OLD).write("f", 0, b"1" * 512).write("f", 0, b"2" * 512).write("f", 512, b"3" * 512), model)
    )
    assert {image[:512] for image in found} == {b"o" * 512, b"1" * 512, b"2" * 512}
    whole = {image for image in found if image[512:513] == b"3" and image[:1] != b"2"}
    # Except in a torn page, whose sectors have different versions.
    assert all(image[:1] in (b"o", b"1") for image in whole)


@pytest.mark.claim("The crash model states what a power cut may lose, reorder and tear, and draws no other state")
def test_appends_persist_as_a_prefix_in_ext4() -> None:
    tape = Tape(f=b"").write("f", 0, A + B).write("f", 2 * PAGE, A)
    assert data(ends(tape, "ext4")) == {b"", A, A + B, A + B + A}


@pytest.mark.parametrize("model", ["ordered", "posix"])
def test_appends_may_have_holes_in_ordered_and_posix(model: str) -> None:
    found = data(ends(Tape(f=b"").write("f", 0, A).write("f", PAGE, B), model))
    assert {b"", A, bytes(PAGE), bytes(PAGE) + B, A + bytes(PAGE), bytes(2 * PAGE), A + B} <= found


def test_appends_are_torn_only_in_ordered_and_posix() -> None:
    def torn(model: str) -> bool:
        found = data(ends(Tape(f=b"").write("f", 0, A), model))
        return any(0 < image.count(b"A") < PAGE for image in found)

    assert (torn("ext4"), torn("ordered"), torn("posix")) == (False, True, True)


def test_overwrite_of_an_append_requires_the_append() -> None:
    found = data(ends(Tape(f=b"").write("f", 0, A).write("f", 0, b"x"), "ext4"))
    assert found >= {b"", A, b"x" + A[1:]} and all(image in (b"", A, b"x" + A[1:]) for image in found)


@ALL
def test_truncated_bytes_never_return(model: str) -> None:
    tape = Tape(f=OLD * 2).write("f", PAGE, A).resize("f", 100).resize("f", 2 * PAGE)
    found = data(ends(tape, model))
    assert OLD[:100] in found and OLD[:100] + bytes(2 * PAGE - 100) in found
    assert all(image[100:].strip(b"\0") == b"" or len(image) == 2 * PAGE for image in found)
    longest = {image[PAGE:] for image in found if image[100:PAGE] == bytes(PAGE - 100)}
    assert longest == {bytes(PAGE)}


@ALL
def test_write_after_truncation_requires_the_truncation(model: str) -> None:
    found = data(ends(Tape(f=OLD).resize("f", 0).write("f", 0, A), model))
    assert {OLD, b"", A} <= found
    # New bytes never appear beside old bytes that were truncated in between.
    assert not any(b"A" in image and b"o" in image for image in found)


# -- flushes ---------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_a_flushed_file_is_whole(model: str, call: str) -> None:
    assert ends(Tape(f=OLD).write("f", 0, A).write("f", PAGE, B).flush(call, "f"), model) == [{"f": A + B}]


@ALL
def test_flush_covers_bytes_of_its_own_file_only(model: str) -> None:
    assert OLD in data(ends(Tape(f=OLD, g=OLD).write("f", 0, A).flush("fsync", "g"), model))


@pytest.mark.claim("The crash model states what a power cut may lose, reorder and tear, and draws no other state")
@ALL
def test_flush_covers_only_writes_completed_before_it(model: str) -> None:
    def tape(write_end: int, flush_begin: int) -> Tape:
        made = Tape(f=OLD)
        made.add(Write(1, write_end, 7, made.numbers["f"], 0, A, "pwrite64"))
        made.add(Flush(flush_begin, 6, 8, "fsync", made.numbers["f"]))
        made.now = 6
        return made

    assert data(ends(tape(2, 3), model)) == {A}
    assert OLD in data(ends(tape(4, 3), model))


@ALL
def test_unfinished_flush_promises_nothing(model: str) -> None:
    tape = Tape(f=OLD).write("f", 0, A)
    tape.add(Flush(3, 6, 7, "fsync", tape.numbers["f"]))
    tape.add(Mark(5, 5, 8, 0, "begin")).add(Mark(7, 7, 8, 1, "begin"))
    assert {state.begun for state in states(tape, model) if held(state)["f"] == OLD} == {0, 1}
    assert 2 in {state.begun for state in states(tape, model)}


@ALL
@pytest.mark.parametrize("hint", ["sync_file_range", "msync(MS_ASYNC)"])
def test_a_hint_is_no_flush(model: str, hint: str) -> None:
    tape = Tape(f=OLD).write("f", 0, A).hint(hint, "f")
    assert OLD in data(ends(tape, model))
    lost = next(state for state in states(tape, model) if state.lost_changes() and state.point >= 4)
    assert f"({hint} is none)" in explain(lost)[0]


@ALL
def test_a_synchronous_write_flushes_its_own_pages(model: str) -> None:
    found = data(ends(Tape(f=OLD * 2).write("f", 0, A).write("f", PAGE, B, durable=True), model))
    assert {image[PAGE:] for image in found} == {B}
    assert {OLD + B, A + B} <= found


@ALL
def test_msync_flushes_its_range(model: str) -> None:
    tape = Tape(f=OLD * 3)
    for page in range(3):
        tape.write("f", page * PAGE, A)
    found = data(ends(tape.flush("msync", "f", PAGE, 2 * PAGE), model))
    assert {image[PAGE : 2 * PAGE] for image in found} == {A}
    assert {OLD + A + OLD, A * 3} <= found


# -- moments and marks -----------------------------------------------------------------------------------------


@ALL
def test_unfinished_call_may_or_may_not_take_effect(model: str) -> None:
    tape = Tape(f=OLD)
    tape.add(Write(1, 6, 7, tape.numbers["f"], 0, A, "pwrite64"))
    tape.add(Mark(2, 2, 8, 0, "begin")).add(Mark(5, 5, 8, 1, "begin"))
    during = [held(state)["f"] for state in states(tape, model) if state.begun == 1]
    assert A in during and OLD in during


@ALL
def test_acknowledged_and_begun_are_counted_at_the_cut(model: str) -> None:
    tape = Tape(f=OLD)
    for number in range(3):
        tape.mark(number, "begin").write("f", 0, b"%d" % number).flush("fsync", "f").mark(number, "end")
    found = {(state.point, state.acknowledged, state.begun) for state in states(tape, model)}
    assert {(point, acknowledged) for point, acknowledged, _ in found if point in (5, 6, 17, 18)} <= {
        (5, 0),
        (6, 1),
        (17, 2),
        (18, 3),
    }
    assert all(acknowledged <= begun <= acknowledged + 1 for _, acknowledged, begun in found)
    assert {begun for _, _, begun in found} == {0, 1, 2, 3}


@ALL
def test_setup_before_transactions_is_lost_only_at_birth(model: str) -> None:
    tape = Tape().create("f").write("f", 0, A).mark(0, "begin").write("f", 0, b"x")
    assert all("f" in held(state) for state in states(tape, model, birth=False))
    assert any("f" not in held(state) for state in states(tape, model, birth=True))


@ALL
def test_seed_determines_the_states_and_none_repeats(model: str) -> None:
    tape = Tape(f=OLD * 4)
    for page in (0, 3, 1, 2, 0, 5, 4):
        tape.write("f", page * PAGE, bytes([page + 65]) * PAGE).create(f"n{page}{tape.now}")
    one, again, other = (states(tape, model, seed=seed, count=60) for seed in (1, 1, 2))
    told = [(state.point, state.kind, state.kept, state.torn) for state in one]
    assert told == [(state.point, state.kind, state.kept, state.torn) for state in again]
    assert told != [(state.point, state.kind, state.kept, state.torn) for state in other]
    assert len({state.key for state in one}) == 60
    assert {state.kind for state in one} == {"drop", "keep", "random", "one lost", "one kept", "torn"}


def test_draws_end_when_states_are_exhausted() -> None:
    assert len(states(Tape(f=OLD).flush("fsync", "f"), "ext4")) == 1


def test_unknown_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of ext4, ordered, posix, got 'zfs'$"):
        list(draws(Tape().record(), "zfs", 1, 1))


# -- witnesses -------------------------------------------------------------------------------------------------


def smallest(tape: Tape, fails: Callable[[State], bool], model: str = "ext4") -> State:
    record = tape.record()
    state = next(state for state in draws(record, model, 1, 200, birth=True) if fails(state))
    return shrink(state, fails)


def test_the_smallest_witness_is_one_lost_page() -> None:
    tape = Tape(f=OLD * 8, g=OLD)
    for page in range(8):
        tape.write("f", page * PAGE, A)
    tape.flush("fsync", "g").mark(0, "begin")
    found = smallest(tape, lambda state: state.point == tape.now and held(state)["f"][PAGE : 2 * PAGE] == OLD)
    assert explain(found) == [
        "a write of 4096 bytes at 4096 of f (pwrite64) was lost: no flush of f came before the cut, but an fsync of "
        "g; nor did any come later"
    ]


def test_witness_describes_lost_rename_and_late_flush() -> None:
    tape = Tape(a=b"").rename("a", "b").mark(0, "begin").flush("fsync", ".")
    found = smallest(tape, lambda state: "a" in held(state) and state.point > 2)
    (line,) = explain(found)
    assert line.startswith("the renaming of a to b was lost: ")
    assert "the directory that it is in" in line


def test_witness_describes_a_torn_page() -> None:
    tape = Tape(f=OLD).write("f", 0, A).mark(0, "begin")
    found = smallest(tape, lambda state: 0 < held(state)["f"].count(b"A") < PAGE)
    assert "page 0 of f (bytes 0 to 4096) is torn: sectors" in explain(found)[0]
