"""Makes one kind of change in a directory, as a program: `calling.py NAME DIRECTORY`."""

# ruff: noqa: PTH102, PTH104, PTH105, PTH106, PTH108, PTH123, PTH211
# This program tests the calls themselves, so it uses os and ctypes directly.

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

PAGE = 4096
LIBC = ctypes.CDLL(None, use_errno=True)
SYS_RENAMEAT2, SYS_IO_SETUP, SYS_IO_URING_SETUP = 316, 206, 425
FICLONE, EXCHANGE, HERE, AT_SYMLINK_FOLLOW = 0x40049409, 2, -100, 0x400
CHANGES: dict[str, Callable[[], None]] = {}


def change(function: Callable[[], None]) -> Callable[[], None]:
    CHANGES[function.__name__] = function
    return function


def opened(name: str = "f", flags: int = os.O_RDWR | os.O_CREAT) -> int:
    return os.open(name, flags, 0o640)


@change
def writes() -> None:
    file = opened()
    os.write(file, b"one")
    os.writev(file, [b"two", b"three" * 1000])
    os.pwrite(file, b"four", 2)
    os.pwritev(file, [b"five", b"six"], 9000)
    os.lseek(file, -3, os.SEEK_END)
    os.write(file, b"seven")
    os.pwritev(file, [b"eight"], 5000, os.RWF_DSYNC)
    os.fsync(file)


@change
def appends() -> None:
    file = opened(flags=os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"one")
    # With O_APPEND, Linux ignores the offset of pwrite.
    os.pwrite(file, b"two", 0)
    os.lseek(file, 0, os.SEEK_SET)
    os.writev(file, [b"three", b"four"])
    again = opened()
    os.pwritev(again, [b"five"], 0, getattr(os, "RWF_APPEND", 0x10))


@change
def duplicates() -> None:
    file = opened(flags=os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    second = os.dup(file)
    os.write(second, b"one")
    os.close(file)
    os.dup2(second, 99)
    os.write(99, b"two")
    os.fdatasync(99)


@change
def sizes() -> None:
    file = opened()
    os.write(file, b"x" * 3 * PAGE)
    os.ftruncate(file, 100)
    os.ftruncate(file, PAGE + 7)
    os.truncate("f", PAGE + 5)
    os.posix_fallocate(file, 0, 3 * PAGE)
    os.pwrite(file, b"y" * 3 * PAGE, 0)
    for mode, start, length in ((3, PAGE, 100), (0x10, 2 * PAGE, 5000), (1, 0, 9 * PAGE)):
        LIBC.fallocate(file, mode, ctypes.c_long(start), ctypes.c_long(length))
    os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))
    os.pwrite(file, b"z", 10)


@change
def names() -> None:
    os.mkdir("d")
    Path("d/a").write_bytes(b"a")
    os.rename("d/a", "d/b")
    os.link("d/b", "c")
    os.symlink("d/b", "s")
    Path("s").write_bytes(b"through the link")
    os.rename("d", "e")
    Path("e/n").write_bytes(b"n")
    os.replace("e/n", "c")
    os.unlink("s")
    os.mkdir("gone")
    os.rmdir("gone")
    Path("old").write_bytes(b"new")
    os.unlink("old")
    Path("old").write_bytes(b"again")
    os.mknod("node", 0o600)


@change
def relative() -> None:
    os.mkdir("d")
    directory = os.open("d", os.O_RDONLY)
    file = os.open("x", os.O_RDWR | os.O_CREAT, 0o600, dir_fd=directory)
    os.write(file, b"x")
    os.rename("x", "y", src_dir_fd=directory, dst_dir_fd=directory)
    os.mkdir("sub", dir_fd=directory)
    os.link("y", "sub/z", src_dir_fd=directory, dst_dir_fd=directory)
    os.symlink("y", "s", dir_fd=directory)
    os.unlink("s", dir_fd=directory)
    os.chdir("d/sub")
    Path("../up").write_bytes(b"up")
    os.fsync(directory)


@change
def crosses() -> None:
    """Moves files to and from a directory that is not recorded."""
    outside = Path.cwd().parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "f").write_bytes(b"from outside")
    os.rename(outside / "f", "in")
    with open("in", "ab") as file:
        file.write(b", and more")
    Path("out").write_bytes(b"to outside")
    os.rename("out", outside / "out")
    (outside / "l").write_bytes(b"linked")
    os.link(outside / "l", "linked")
    Path("old").write_bytes(b"old")
    (outside / "new").write_bytes(b"new")
    os.replace(outside / "new", "old")


@change
def unnamed() -> None:
    file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(file, b"no name yet")
    assert LIBC.linkat(HERE, f"/proc/self/fd/{file}".encode(), HERE, b"named", AT_SYMLINK_FOLLOW) == 0
    os.write(file, b", and now one")


@change
def copies() -> None:
    source = opened("s")
    os.write(source, b"0123456789" * 1000)
    into = opened()
    os.sendfile(into, source, 3, 5000)
    os.copy_file_range(source, into, 100, 10, 6000)
    os.copy_file_range(source, into, 100, 20)
    read, write = os.pipe()
    os.write(write, b"spliced")
    os.splice(read, into, 7)
    os.write(write, b"spliced")
    os.splice(read, into, 7, offset_dst=8000)


@change
def mapped() -> None:
    file = opened()
    os.ftruncate(file, 5 * PAGE)
    memory = mmap.mmap(file, 5 * PAGE)
    memory[10:13] = b"one"
    memory.flush()
    memory[PAGE - 2 : PAGE + 2] = b"four"
    os.pwrite(file, b"written", 3 * PAGE)
    memory[3 * PAGE + 2] = 0x41
    memory.flush(0, PAGE)
    memory[4 * PAGE] = 0x42
    os.close(file)
    del memory


@change
def protected() -> None:
    """Makes a mapping writable after it was created."""
    file = opened()
    os.ftruncate(file, PAGE)
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    at = LIBC.mmap(None, PAGE, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    LIBC.mprotect(ctypes.c_void_p(at), PAGE, mmap.PROT_READ | mmap.PROT_WRITE)
    ctypes.memmove(at + 5, b"stored", 6)


@change
def threads() -> None:
    def work(number: int) -> None:
        for turn in range(20):
            file = opened(f"t{number}")
            os.pwrite(file, bytes([turn]) * 100, turn * 100)
            os.close(file)
        os.rename(f"t{number}", f"u{number}")

    every = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()


@change
def forks() -> None:
    file = opened()
    os.write(file, b"parent ")
    for number in range(3):
        if os.fork() == 0:
            os.write(file, b"child%d " % number)
            os.setsid()
            os._exit(0)
        os.wait()
    os.write(file, b"again")
    os.spawnl(os.P_WAIT, sys.executable, "python", "-c", "open('spawned', 'w').write('x')")


@change
def flushes() -> None:
    file = opened()
    os.write(file, b"x")
    os.fsync(file)
    os.fdatasync(file)
    os.sync()
    LIBC.syncfs(file)
    LIBC.sync_file_range(file, ctypes.c_long(0), ctypes.c_long(0), 7)
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.ftruncate(file, PAGE)
    memory = mmap.mmap(file, PAGE)
    LIBC.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    LIBC.msync(address, PAGE, 4)
    LIBC.msync(address, PAGE, 1)


@change
def refused() -> None:
    """Calls that the recorder refuses because it can't follow them."""
    Path("a").write_bytes(b"a")
    Path("b").write_bytes(b"b")
    context, parameters = ctypes.c_ulong(), ctypes.create_string_buffer(120)
    LIBC.syscall.restype = ctypes.c_long
    answers = [
        LIBC.syscall(SYS_IO_SETUP, 1, ctypes.byref(context)),
        LIBC.syscall(SYS_IO_URING_SETUP, 1, parameters),
        LIBC.ioctl(opened("a"), ctypes.c_ulong(FICLONE), opened("b")),
        LIBC.syscall(SYS_RENAMEAT2, HERE, b"a", HERE, b"b", EXCHANGE),
        LIBC.fallocate(opened("a"), 8, ctypes.c_long(0), ctypes.c_long(PAGE)),
    ]
    assert answers == [-1] * 5, answers


@change
def dies() -> None:
    os.write(opened(), b"before")
    os.kill(os.getpid(), 9)


@change
def leaves() -> None:
    """Leaves a child that outlives the program."""
    if os.fork() == 0:
        os.setsid()
        for number in range(10):
            os.write(opened(flags=os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"%d" % number)
        os._exit(0)


if __name__ == "__main__":
    os.chdir(sys.argv[2])
    CHANGES[sys.argv[1]]()
