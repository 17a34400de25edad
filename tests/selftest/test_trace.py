"""Tests which writes and flushes in a trace belong to a commit and ended before it was acknowledged.

The lines have the format of strace with -f -y -s 0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dyno.selftest.trace import TraceSummary, summarize_trace

HOME = Path("/srv/dyno/home")
A, B = f"3<{HOME}/a>", f"4<{HOME}/b>"
NOT_THERE = "-1 ENOENT (No such file or directory)"
WRITE, FLUSH = f'7 write({A}, ""..., 9) = 9', f"7 fsync({A}) = 0"


def begin(number: int = 1) -> str:
    return f'7 access("/dyno-mark/{number}/begin", F_OK) = {NOT_THERE}'


def end(number: int = 1) -> str:
    return f'7 access("/dyno-mark/{number}/end", F_OK) = {NOT_THERE}'


def opened(flags: str, name: str = "a", descriptor: int = 3, pid: int = 7) -> str:
    return f'{pid} openat(AT_FDCWD</>, "{name}", {flags}, 0644) = {descriptor}<{HOME}/{name}>'


def read(*lines: str) -> TraceSummary:
    return summarize_trace("\n".join(lines).splitlines(keepends=True), HOME)


def flushes(*lines: str) -> dict[str, int]:
    """Returns the flushes of a commit that has an unrelated flush before and after it."""
    return dict(read(FLUSH, begin(), *lines, end(), FLUSH).flushes)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], {}),
        ([FLUSH, f"8 fdatasync({B}) = 0"], {"fsync": 1, "fdatasync": 1}),
        ([f"7 fsync({A}) = -1 EIO (Input/output error)"], {}),
        ([f"7 fsync({A}(deleted)) = 0"], {"fsync": 1}),
        ([f"7 fsync(3<{HOME}>) = 0"], {"fsync": 1}),
        (["7 fsync(3</srv/dyno/homer/a>) = 0", "7 fsync(3</srv/other>) = 0", "7 fsync(3) = 0"], {}),
        (["7 sync() = 0", f"7 syncfs({A}) = 0", "7 syncfs(3</srv/other>) = 0"], {"sync": 1, "syncfs": 1}),
        ([f"7 sync_file_range({A}, 0, 0, SYNC_FILE_RANGE_WRITE) = 0"], {}),
        ([f'7 pwrite64({A}, ""..., 4096, 0) = 4096'], {}),
        ([f"7 fdatasync({A} <unfinished ...>", f"8 fsync({B}) = 0", "7 <... fdatasync resumed>) = 0"],
         {"fdatasync": 1, "fsync": 1}),
        ([f"7 fdatasync({A} <unfinished ...>"], {}),
        ([f"7 pwritev2({A}, [...], 1, 0, RWF_DSYNC) = 1"], {"pwritev2 RWF_DSYNC": 1}),
        ([f"7 pwritev2({A}, [...], 1, 0, RWF_HIPRI) = 1"], {}),
    ],
)  # fmt: skip
def test_flushes_below_home_are_counted_by_kind(lines: list[str], found: dict[str, int]) -> None:
    assert flushes(*lines) == found


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([opened("O_RDWR|O_DSYNC|O_CLOEXEC")], "write O_DSYNC"),
        ([opened("O_RDWR|O_SYNC")], "write O_SYNC"),
        ([opened("O_RDWR|O_DIRECT")], None),
        ([opened("O_RDWR", "O_DSYNC")], None),
        ([opened("O_RDWR|O_DSYNC"), f"7 close({A}) = 0"], None),
        ([opened("O_RDWR|O_DSYNC"), f"7 close({B}) = 0"], "write O_DSYNC"),
        ([opened("O_RDWR|O_DSYNC"), opened("O_RDWR")], None),
        # Another process has its own descriptors.
        ([opened("O_RDWR|O_DSYNC", pid=8)], None),
        ([opened("O_RDWR|O_DSYNC"), "7 fork() = 8", f"8 close({A}) = 0"], "write O_DSYNC"),
        ([opened("O_RDWR|O_DSYNC", pid=6), "6 clone(child_stack=NULL, flags=SIGCHLD) = 7"], "write O_DSYNC"),
        # The child's calls appear before the call that created it has ended.
        ([opened("O_RDWR|O_DSYNC", pid=6), "6 vfork( <unfinished ...>", begin(0), end(0),
          "6 <... vfork resumed>) = 7"], "write O_DSYNC"),
        # A thread shares the descriptors of its process.
        (["6 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[7]}, 88) = 7", f"7 close({B}) = 0",
          opened("O_RDWR|O_DSYNC", pid=6)], "write O_DSYNC"),
    ],
)  # fmt: skip
def test_write_to_synchronously_opened_file_counts_as_flush(lines: list[str], kind: str | None) -> None:
    found = read(*lines, begin(), WRITE, end())
    assert dict(found.flushes) == ({kind: 1} if kind else {})
    assert dict(found.writes) == {kind or "write": 1}
    assert found.commits[-1].flushed is bool(kind)


def test_shared_mapping_is_listed_and_its_msync_counted() -> None:
    def mapped(protection: str, flags: str, file: str = A) -> str:
        return f"7 mmap(NULL, 8192, {protection}, {flags}, {file}, 0) = 0x7f0000001000"

    def flush(address: int, flags: str = "MS_SYNC") -> str:
        return f"7 msync({address:#x}, 4096, {flags}) = 0"

    inside, outside = 0x7F0000002000, 0x7F0000003000
    shared = mapped("PROT_READ|PROT_WRITE", "MAP_SHARED")
    assert read(shared).mapped == ("a",)
    assert read(mapped("PROT_READ|PROT_WRITE", "MAP_SHARED_VALIDATE|MAP_SYNC")).mapped == ("a",)
    for other in (
        mapped("PROT_READ", "MAP_SHARED"),
        mapped("PROT_READ|PROT_WRITE", "MAP_PRIVATE"),
        mapped("PROT_READ|PROT_WRITE", "MAP_SHARED", "3</srv/other>"),
        "7 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANONYMOUS, -1, 0) = 0x7f0000001000",
    ):
        found = read(other, begin(), flush(inside), end())
        assert found.mapped == () and not found.flushes, other
    found = read(shared, begin(), flush(inside), flush(outside), flush(inside, "MS_ASYNC"), end())
    assert dict(found.flushes) == {"msync": 1}
    # The second mapping replaces the first one.
    found = read(shared, mapped("PROT_READ|PROT_WRITE", "MAP_SHARED", B), begin(), flush(inside), WRITE, end())
    assert found.mapped == ("a", "b") and found.flushed == 1
    found = read(shared, begin(), flush(inside), flush(outside), flush(inside, "MS_ASYNC"), end())
    # A trace doesn't show stores, but it shows that they were flushed.
    assert [(commit.written, commit.flushed) for commit in found.commits] == [(False, True)]


@pytest.mark.parametrize(
    ("lines", "flushed"),
    [
        ([], False),
        ([FLUSH], False),
        ([WRITE], False),
        ([WRITE, FLUSH], True),
        ([FLUSH, WRITE], False),
        ([WRITE, f"7 fsync({B}) = 0"], False),
        ([WRITE, f"8 write({B}, \"\"..., 1) = 1", FLUSH], True),
        ([WRITE, FLUSH, WRITE], False),
        ([WRITE, FLUSH, WRITE, FLUSH], True),
        ([WRITE, "7 sync() = 0"], True),
        ([WRITE, f"7 syncfs({B}) = 0"], True),
        # LMDB without metasync flushes the pages, but not the root that makes them valid.
        ([opened("O_RDWR|O_DSYNC", descriptor=5), WRITE, FLUSH, f'7 pwrite64(5<{HOME}/a>, ""..., 9, 0) = 9'], True),
        ([opened("O_RDWR", descriptor=5), WRITE, FLUSH, f'7 pwrite64(5<{HOME}/a>, ""..., 9, 0) = 9'], False),
        # A synchronous write flushes itself, and no earlier writes.
        ([opened("O_RDWR|O_DSYNC", descriptor=5), WRITE, f'7 pwrite64(5<{HOME}/a>, ""..., 9, 0) = 9'], False),
        # The flush began before the write had ended.
        ([f"8 fsync({A} <unfinished ...>", WRITE, "8 <... fsync resumed>) = 0"], False),
        ([f'8 write({A}, ""..., 9 <unfinished ...>', FLUSH, "8 <... write resumed>) = 9"], False),
        ([f"8 fsync({A} <unfinished ...>", WRITE, "8 <... fsync resumed>) = 0", f"8 fsync({A}) = 0"], True),
    ],
)  # fmt: skip
def test_commit_is_flushed_if_its_writes_are(lines: list[str], flushed: bool) -> None:
    (commit,) = read(begin(), *lines, end()).commits
    assert commit.flushed is flushed


REMOVED, CUT = f'7 unlink("{HOME}/b") = 0', f"7 ftruncate({B}, 0) = 0"
FLUSH_B, FLUSH_HOME = f"7 fdatasync({B}) = 0", f"7 fdatasync(5<{HOME}>) = 0"
JOURNAL = [f'7 pwrite64({B}, ""..., 512, 0) = 512', FLUSH_B, FLUSH_HOME, WRITE, FLUSH]


@pytest.mark.parametrize(
    ("lines", "flushed"),
    [
        # SQLite commits by ending its journal: it removes, truncates or overwrites it.
        ([*JOURNAL, REMOVED, FLUSH_HOME], True),
        ([*JOURNAL, REMOVED], False),
        ([*JOURNAL, f'7 unlinkat(AT_FDCWD<{HOME}>, "b", 0) = 0'], False),
        ([*JOURNAL, f'7 unlinkat(6<{HOME}>, "b", 0) = 0', FLUSH_HOME], True),
        ([*JOURNAL, CUT, FLUSH_B], True),
        ([*JOURNAL, CUT], False),
        ([*JOURNAL, f'7 pwrite64({B}, ""..., 28, 0) = 28', FLUSH_B], True),
        ([*JOURNAL, f'7 pwrite64({B}, ""..., 28, 0) = 28'], False),
        # A renamed file replaces another one. Its name is flushed, but its data may not be.
        ([WRITE, f'7 rename("{HOME}/a", "{HOME}/b") = 0', FLUSH_HOME], False),
        ([WRITE, FLUSH, f'7 rename("{HOME}/a", "{HOME}/b") = 0', FLUSH_HOME], True),
        ([FLUSH_HOME, WRITE, FLUSH, f'7 renameat2(AT_FDCWD</>, "{HOME}/a", AT_FDCWD</>, "{HOME}/b", 0) = 0'], False),
        # Changes of files that the commit did not flush before need no flush.
        ([WRITE, FLUSH, REMOVED, CUT, '7 unlink("/srv/other") = 0', '7 unlink("pipe") = 0'], True),
    ],
)  # fmt: skip
def test_later_change_of_flushed_file_needs_a_flush(lines: list[str], flushed: bool) -> None:
    found = read(begin(), *lines, end())
    assert [commit.flushed for commit in found.commits] == [flushed]
    assert set(found.writes) <= {"write", "pwrite64"}


def test_calls_belong_to_commit_in_which_they_end() -> None:
    found = read(begin(1), WRITE, FLUSH, end(1), begin(2), WRITE, end(2), FLUSH, begin(3), end(3), WRITE)
    assert [(commit.written, commit.flushed) for commit in found.commits] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert (found.written, found.flushed) == (2, 1)
    # Flushes and writes are counted from the first mark to the last.
    assert (dict(found.flushes), dict(found.writes)) == ({"fsync": 2}, {"write": 2})


def test_flush_during_acknowledgement_is_too_late() -> None:
    mark = end().split(" = ")[0].removesuffix(")")
    found = read(
        begin(), WRITE, f"{mark} <unfinished ...>", f"8 fsync({A}) = 0", f"7 <... access resumed>) = {NOT_THERE}"
    )
    assert [commit.flushed for commit in found.commits] == [False]
    later = f"7 <... access resumed>) = {NOT_THERE}"
    found = read(
        begin(), WRITE, f"{mark} <unfinished ...>", f"8 fsync({A}) = 0", later, begin(2), WRITE, FLUSH, end(2)
    )
    assert [commit.flushed for commit in found.commits] == [False, True]
    assert dict(found.flushes) == {"fsync": 2}, "counted all the same"


def test_marks_are_recognised_in_every_access_call() -> None:
    for call in (
        'access("%s", F_OK)',
        'faccessat(AT_FDCWD</>, "%s", F_OK)',
        'faccessat2(AT_FDCWD</>, "%s", F_OK, 0)',
    ):
        lines = [f"7 {call % f'/dyno-mark/1/{which}'} = {NOT_THERE}" for which in ("begin", "end")]
        assert len(read(*lines).commits) == 1
    assert read('7 access("/etc/ld.so.preload", R_OK) = 0').commits == ()


def test_io_uring_is_reported_as_unseen() -> None:
    assert read("7 io_uring_setup(256, {flags=0}) = 5<anon_inode:[io_uring]>").unseen == ("io_uring",)
    assert read("7 io_uring_setup(256, {flags=0}) = -1 EPERM (Operation not permitted)").unseen == ()


def test_home_path_escaped_by_strace_is_recognised() -> None:
    home = Path('/srv/a>b <c ü\n"d')
    file = r"3</srv/a\76b \74c \303\274\n\"d/log>"
    found = summarize_trace([begin(), f'7 write({file}, ""..., 9) = 9', f"7 fsync({file}) = 0", end()], home)
    assert found.flushed == 1


def test_asynchronous_writes_count_as_writes_of_their_file() -> None:
    submitted = f"io_submit(0x7f0, 1, [{{aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes={A}, aio_nbytes=512}}]) = 1"
    assert dict(read(begin(), f"7 {submitted}", end()).writes) == {"io_submit": 1}


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (f"7 sendfile({A}, 9</srv/other>, NULL, 1000) = 1000", {"sendfile": 1}),
        (f"7 sendfile(9</srv/other>, {A}, NULL, 1000) = 1000", {}),
        (f"7 copy_file_range(9</srv/other>, NULL, {A}, NULL, 1000, 0) = 1000", {"copy_file_range": 1}),
        (f"7 copy_file_range({A}, NULL, 9</srv/other>, NULL, 1000, 0) = 1000", {}),
        (f"7 splice(9<pipe:[12]>, NULL, {A}, NULL, 1000, 0) = 1000", {"splice": 1}),
    ],
)
def test_kernel_copy_counts_as_write_of_its_target(line: str, written: dict[str, int]) -> None:
    found = read(begin(), line, end())
    assert (dict(found.writes), found.written) == (written, len(written))


def test_only_log_files_count_for_commits() -> None:
    """Background writes and flushes of other files neither prove nor disprove that a commit was flushed."""
    log, other = f"3<{HOME}/server/wal1/a>", f"4<{HOME}/server/table/a>"
    lines = [begin(), f'7 write({log}, ""..., 9) = 9', f"7 fsync({log}) = 0", f"8 fsync({other}) = 0"]
    lines += [f'8 write({other}, ""..., 9) = 9', end()]
    assert read(*lines).flushed == 0
    assert summarize_trace([f"{line}\n" for line in lines], HOME, ("server/wal*",)).flushed == 1
    beside = [begin(), f'7 write({other}, ""..., 9) = 9', f"7 fsync({other}) = 0", end()]
    assert read(*beside).flushed == 1
    assert summarize_trace([f"{line}\n" for line in beside], HOME, ("server/wal*",)).flushed == 0


def test_rare_unflushed_background_writes_are_tolerated() -> None:
    plain = [begin(), WRITE, FLUSH, end()]
    written_on = [begin(), WRITE, FLUSH, f'9 write({A}, ""..., 9) = 9', end()]
    assert read(*plain * 95, *written_on * 5).flushed == 100
    # More than 5 % is no coincidence: if commits depend on another thread's writes, most of them show it.
    assert read(*plain * 94, *written_on * 6).flushed == 94
    # Unflushed writes of the committing thread itself always count.
    assert read(*plain * 99, begin(), WRITE, FLUSH, WRITE, end()).flushed == 99
    assert read(*plain * 99, begin(), WRITE, f"9 fsync({A}) = 0", f'9 write({A}, ""..., 9) = 9', end()).flushed == 99
