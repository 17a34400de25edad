"""Bad output locations: unwritable files, encodings that lack characters, missing directories, full disks.

Each gives one line with the reason, and no measured result is lost.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from shell import COMMAND, PATIENCE, Ended, Shell, is_one_line, small, wait_for

pytestmark = pytest.mark.usefixtures("processes")

RUN = ("run", "records", "-e", "memory", *small(samples=1))
DYNO = " ".join(COMMAND)
FULL = "dyno: can't write to standard output: No space left on device\n"
CLOSED = "dyno: can't write to standard output: it is closed\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    home = tmp_path_factory.mktemp("ran")
    shell = Shell(home, home / "work")
    chosen = small(samples=2, param_value_size="100,1000")
    assert shell.dyno("run", "records", "-e", "memory,sqlite", *chosen, "-o", shell.file).status == 0
    return shell.file.read_bytes()


@pytest.fixture
def shell(shell: Shell, ran: bytes) -> Shell:
    """A shell with a run file."""
    shell.file.write_bytes(ran)
    return shell


def bash(shell: Shell, line: str) -> Ended:
    """Runs a line of shell script in which `dyno` is the command."""
    return shell.sh("bash", "-c", re.sub(r"(?<![^ ])dyno(?= )", DYNO, line))


def assert_one_line(ended: Ended, said: str, status: int = 2) -> None:
    assert ended.status == status, ended
    assert ended.out == ""
    assert is_one_line(ended.err), ended
    assert ended.err.startswith(f"dyno: {said}"), ended


def assert_kept(shell: Shell, name: str) -> None:
    """Checks that the file has a complete run, and that nothing else is left."""
    shown = shell.dyno("show", name, "--json")
    assert shown.status == 0, shown
    assert '"complete": true' in shown.out
    assert shell.strays() == []
    assert shell.left() == []


# -- interruptions ----------------------------------------------------------------------------------------------

INTERRUPT = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


@pytest.mark.parametrize("module", ["click", "dyno.cli.commands", "dyno.cli.show"])
def test_interrupt_during_import_is_one_line(shell: Shell, module: str) -> None:
    """The import of a module sends the signal, so that its time is deterministic."""
    on_import = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            exec({INTERRUPT!r})
sys.meta_path.insert(0, Finder())
"""
    (shell.home / "sitecustomize.py").write_text(on_import)
    shell.plugins = [shell.home]
    ended = shell.sh(*COMMAND, "show", shell.file)
    assert ended.err == "dyno: interrupted\n" and ended.status in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("kib", "command", "said"),
    [
        (60_000, "show r.json", "the limit of address space is 58 MiB"),
        (4_000_000, "report r.json", "charts need 66 GiB"),
    ],
)
def test_address_space_limit_is_a_one_line_error(shell: Shell, kib: int, command: str, said: str) -> None:
    assert_one_line(bash(shell, f"ulimit -v {kib}; dyno {command} -o out.html"), said)


# -- characters -------------------------------------------------------------------------------------------------

ASCII = {"PYTHONIOENCODING": "ascii"}
ENCODINGS = (ASCII, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})


def said(shell: Shell, words: tuple[str, ...], environment: dict[str, str]) -> bytes:
    ended = subprocess.run(
        [*COMMAND, *words],
        cwd=shell.home,
        env=shell.environment() | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert ended.stderr == b""
    assert ended.returncode in (0, 1)
    return ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("show", "r.json", "--by-phase"),
        ("show", "r.json", "--markdown"),
        ("compare", "r.json", "r.json"),
        ("list", "engines"),
    ],
    ids=" ".join,
)
def test_ascii_output_substitutes_characters_and_keeps_columns(shell: Shell, words: tuple[str, ...]) -> None:
    whole, out = shell.dyno(*words).out, said(shell, words, ASCII).decode("ascii")
    pairs = list(zip(whole.splitlines(), out.splitlines(), strict=True))
    assert "?" not in out.replace("?unix_socket", "").replace("?ssl", "")
    # Markdown escapes a doubt's backticks; Python would escape a character's number.
    assert not re.search(r"\\[xuUN]", out)
    wider = re.compile("[…→±]")
    assert [(a, b) for a, b in pairs if len(a) != len(b) and not wider.search(a)] == []
    # Each word keeps its column, unless a replacement character is wider.
    for a, b in pairs:
        if not wider.search(a):
            assert [m.start() for m in re.finditer(r"\S+", a)] == [m.start() for m in re.finditer(r"\S+", b)]


@pytest.mark.parametrize("words", [("replicate",), ("list",)], ids=" ".join)
def test_files_are_read_as_utf8_in_ascii_locale(shell: Shell, words: tuple[str, ...]) -> None:
    assert said(shell, words, ENCODINGS[-1]).isascii()


@pytest.mark.parametrize("environment", ENCODINGS, ids=str)
def test_table_has_units_and_bars_in_every_encoding(shell: Shell, environment: dict[str, str]) -> None:
    out = said(shell, ("show", "r.json", "--all"), environment).decode("latin-1")
    (head, *_) = (line for line in out.splitlines() if line.startswith("engine "))
    rows = [line for line in out.splitlines() if "value_size=" in line and "#" in line]
    end = head.index("p50") + len("p50")
    assert len(rows) == 4
    assert all(re.search(r"\d [unmµ]?s$", row[:end]) for row in rows), out


def test_doctor_and_run_work_with_ascii_output(shell: Shell) -> None:
    assert " us" in said(shell, ("doctor",), ASCII).decode("ascii")
    shell.given = ASCII
    ended = shell.dyno(*RUN, "-o", "new.json")
    assert (ended.status, ended.err) == (0, "Written to new.json\n")


def test_undecodable_file_name_is_escaped_and_usable(shell: Shell) -> None:
    name = os.fsdecode(b"caf\xe9\n.json")
    assert_one_line(shell.dyno("show", name), "can't read caf\\udce9\\n.json: No such file or directory")
    (shell.home / name).write_bytes(shell.file.read_bytes())
    report = shell.dyno("report", name)
    assert (report.status, report.out) == (0, ""), report


# -- standard output and standard error -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "err"),
    [("show r.json >/dev/full", FULL), ("--version >&-", CLOSED), ("show r.json --csv -o - >&-", CLOSED)],
)
def test_unwritable_stdout_is_a_one_line_error(shell: Shell, line: str, err: str) -> None:
    assert bash(shell, f"dyno {line}") == (2, "", err)


def test_exit_status_is_kept_if_stderr_is_unwritable(shell: Shell) -> None:
    for to in ("2>&-", "2>/dev/full", "<&- >&- 2>&-"):
        assert bash(shell, f"dyno show nowhere.json {to}") == (2, "", ""), to
    ended = bash(shell, "dyno show r.json 2>/dev/full")
    assert (ended.status, bool(ended.out)) == (0, True)


@pytest.mark.claim("A full disk or a closed output loses no trial that has ended")
@pytest.mark.parametrize(("to", "err"), [(">/dev/full", FULL), (">&-", CLOSED), ("<&- >&- 2>&-", "")])
def test_run_file_is_kept_if_stdout_is_unwritable(shell: Shell, to: str, err: str) -> None:
    ended = bash(shell, f"dyno {' '.join(RUN)} -o new.json {to}")
    assert ended == (1, "", f"Written to new.json\n{err}" if err else "")
    assert_kept(shell, "new.json")


def test_stdout_has_no_messages_if_stderr_is_closed(shell: Shell) -> None:
    ended = bash(shell, f"dyno {' '.join(RUN)} -o new.json 2>&-")
    assert ended.status == 0
    assert "Written" not in ended.out
    assert ended.out == shell.dyno("show", "new.json").out


def test_check_exit_status_survives_a_broken_pipe(shell: Shell) -> None:
    gate = "dyno check r.json --against r.json --strict --margin 0.001%"
    assert bash(shell, gate).status == 1
    assert bash(shell, f"set -o pipefail; {gate} | true") == (1, "", "")


def test_nonblocking_stdout_is_written_completely(shell: Shell) -> None:
    whole = shell.dyno("show", "r.json", "--json", "--samples").out
    assert len(whole) > 1 << 12
    late = (
        "import os, sys, time; os.set_blocking(0, False); print(flush=True, file=sys.stderr); time.sleep(1)\n"
        "os.set_blocking(0, True); print(len(sys.stdin.buffer.read()))"
    )
    line = f"(sleep 0.3; for i in 1 2 3; do dyno show r.json --json --samples; done) | {sys.executable} -c '{late}'"
    assert bash(shell, f"{line} 2>/dev/null").out == f"{3 * len(whole)}\n"


# -- targets of -o ----------------------------------------------------------------------------------------------


@pytest.fixture
def places(shell: Shell) -> Path:
    """A working directory with a loop of links, links, a pipe, a directory and a file."""
    for name, target in (("loop", "loop"), ("loop.svg", "loop.svg"), ("away", "target"), ("link", "r.json")):
        (shell.home / name).symlink_to(target)
    (shell.home / "folder").mkdir()
    (shell.home / "file").write_text("mine\n")
    os.mkfifo(shell.home / "pipe")
    return shell.home


REFUSED = (
    # Run files.
    (RUN, "-", "-o -: a run file is appended to after every trial; name a file"),
    (RUN, "/dev/null", "-o /dev/null: a run file is a regular file, got a device"),
    ((*RUN, "--overwrite"), "pipe", "-o pipe: a run file is a regular file, got a pipe"),
    ((*RUN, "--resume"), "folder", "-o folder: a run file is a regular file, got a directory"),
    (RUN, "loop", "can't write loop: Too many levels of symbolic links"),
    (RUN, "/proc/x", "can't write /proc/x: No such file or directory"),
    (("replicate", "acid-2013"), "-", "-o -: a run file is appended to after every trial; name a file"),
    # Output of other commands.
    (("show", "r.json", "--parquet"), "-", "--parquet needs -o FILE"),
    (("show", "r.json", "--csv"), "loop", "can't write loop: Too many levels of symbolic links"),
    (("show", "r.json", "--csv"), "/dev/full", "can't write /dev/full: No space left on device"),
    (("report", "r.json"), "folder/no/x", "can't write folder/no/x: No such file or directory"),
    (("report", "r.json", "--open"), "-", "--open needs a page in a file"),
    (("report", "r.json", "--overwrite"), "link", "-o link: that is a run file, which is never replaced"),
    (("plot", "r.json", "--chart", "latency"), "loop.svg", "can't write loop.svg: Too many levels of symbolic links"),
    (("plot", "r.json"), "-", "-o - is one picture: add --chart"),
    (("plot", "r.json"), "loop/", "can't create loop/: it exists and is not a directory"),
    (("site", "r.json"), "-", "-o: expected a directory, got -"),
    (("site", "r.json"), "away", "away exists and is not a directory"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "path", "why"), REFUSED, ids=lambda value: value[0] if isinstance(value, tuple) else value[:12]
)
def test_invalid_output_path_is_refused_and_left_unchanged(
    shell: Shell, places: Path, words: tuple[str, ...], path: str, why: str
) -> None:
    before = sorted(places.rglob("*"))
    assert_one_line(shell.dyno(*words, "-o", path), why)
    assert sorted(places.rglob("*")) == before
    assert shell.left() == []


def test_block_device_is_refused_as_output(shell: Shell) -> None:
    disk = shell.home / "disk"
    try:
        # A device number without a driver.
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(240, 0))
    except PermissionError:
        pytest.skip("only root may make one")
    assert_one_line(shell.dyno("show", "r.json", "--csv", "-o", disk), f"can't write {disk}: it is a block device")


def test_output_follows_symbolic_links(shell: Shell, places: Path, ran: bytes) -> None:
    assert shell.dyno(*RUN, "-o", "away").status == 0
    assert shell.dyno(*RUN, "-o", "link", "--overwrite").status == 0
    assert (places / "away").is_symlink() and (places / "link").is_symlink()
    assert shell.file.read_bytes() != ran
    for name in ("target", "r.json"):
        assert_kept(shell, name)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("show", "r.json", "--csv"), "x.csv"),
        (("report", "r.json"), "x.html"),
        (("plot", "r.json", "--chart", "latency"), "x.svg"),
    ],
)
def test_a_dash_is_standard_output(shell: Shell, words: tuple[str, ...], name: str) -> None:
    assert shell.dyno(*words, "-o", name).status == 0
    # The same bytes as in a file, whatever the terminal's encoding.
    assert said(shell, (*words, "-o", "-"), ASCII) == (shell.home / name).read_bytes()
    assert not (shell.home / "-").exists()


def test_output_may_go_to_devices_and_pipes(shell: Shell, places: Path) -> None:
    assert shell.dyno("report", "r.json", "-o", "/dev/null") == (0, "", "Written to /dev/null\n")
    ended = bash(shell, "cat pipe & dyno show r.json --csv -o pipe; wait")
    assert (ended.out, ended.err) == (shell.dyno("show", "r.json", "--csv").out, "Written to pipe\n")
    assert shell.dyno("show", "r.json", "-o", "-") == shell.dyno("show", "r.json")
    assert shell.dyno("show", "r.json", "--csv", "-o", "./-").status == 0
    appended = bash(shell, "echo begun >out; dyno show r.json --csv -o /dev/stdout >>out")
    assert (appended.status, appended.err) == (0, "")
    assert (places / "out").read_bytes() == b"begun\n" + (places / "-").read_bytes()


# -- failures during a run --------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(place: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with the given options, or remounts it with other options."""
    disk = place / "disk"

    def mount(options: str) -> Path:
        there = ["-o", f"remount,{options}", str(disk)]
        words = there if disk.is_mount() else ["-t", "tmpfs", "-o", options, "none", str(disk)]
        disk.mkdir(exist_ok=True)
        if os.geteuid() or subprocess.run(["mount", *words], capture_output=True).returncode:
            pytest.skip("only root may mount, and not everywhere")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.claim("A full disk or a closed output loses no trial that has ended")
def test_run_stopped_by_full_disk_can_resume(shell: Shell, small_disk: Callable[[str], Path]) -> None:
    file = small_disk("size=12k") / "r.json"
    words = ("run", "records", "-e", "memory", *small(samples=5), "-o", file)
    stopped = shell.dyno(*words)
    assert (stopped.status, stopped.out) == (1, "")
    match = re.fullmatch(
        f"dyno: the run stopped: {file}: No space left on device; (\\d+) of \\d+ trials are kept in {file};"
        f" to continue: dyno {' '.join(map(str, words))} --resume\n",
        stopped.err,
    )
    assert match and int(match[1]) > 1, stopped
    small_disk("size=1m")
    assert shell.dyno("show", file).status == 0
    assert shell.dyno(*words, "--resume").status == 0
    assert_kept(shell, str(file))


def test_read_only_run_file_is_refused_before_measuring(shell: Shell, small_disk: Callable[[str], Path]) -> None:
    file = small_disk("size=1m") / "r.json"
    words = (*RUN, "--samples", 2, "-o", file)
    assert shell.dyno(*words, "--blocks", 1).status == 0
    small_disk("ro")
    for how in ("--resume", "--overwrite"):
        assert_one_line(shell.dyno(*words, how), f"can't write {file}: Read-only file system")


def test_full_work_directory_is_a_one_line_error(shell: Shell, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("nr_inodes=4")
    ended = shell.dyno(*RUN, "-o", "new.json", "--work", disk)
    assert_one_line(ended, str(disk))
    assert ended.err.endswith("No space left on device; nothing was measured\n")
    assert list(disk.iterdir()) == []


@pytest.mark.claim("A full disk or a closed output loses no trial that has ended")
@pytest.mark.parametrize("blocks", [1, 8])
def test_file_size_limit_loses_no_ended_trial(shell: Shell, blocks: int) -> None:
    """8 KiB hold the header and some trials; 1 KiB holds neither."""
    ended = bash(shell, f"ulimit -f {blocks}; dyno {' '.join(RUN)} --samples 5 -o new.json")
    if blocks == 1:
        assert_one_line(ended, "can't write new.json: File too large")
        assert not (shell.home / "new.json").exists()
        assert bash(shell, "ulimit -f 1; dyno show r.json --json >out").status == 2
    else:
        assert ended.status == 1
        assert "dyno: the run stopped: new.json: File too large; " in ended.err
        assert shell.dyno(*RUN, "--samples", "5", "-o", "new.json", "--resume").status == 0
        assert_kept(shell, "new.json")


def test_failed_overwrite_keeps_the_old_run_file(shell: Shell, ran: bytes) -> None:
    ended = bash(shell, f"ulimit -f 1; dyno {' '.join(RUN)} -o r.json --overwrite")
    assert_one_line(ended, "can't write r.json: File too large")
    assert shell.file.read_bytes() == ran
    assert [path.name for path in shell.home.iterdir()] == ["r.json"]


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 20)


def change_digit(file: Path) -> None:
    # In place: an editor that replaces the file is another case.
    with file.open("r+b") as content:
        at = content.read().index(b'"seed":1')
        content.seek(at + len(b'"seed":'))
        content.write(b"2")


@pytest.mark.parametrize("damage", [remove, empty, cut, change_digit])
def test_damaged_run_file_ends_its_run(shell: Shell, damage: Callable[[Path], None]) -> None:
    shell.close_gate(passing=0)
    with shell.started("run", "records", "-e", "waiter", *small(samples=1), "-o", "new.json") as run:
        assert wait_for(shell.at_gate), run.poll()
        damage(shell.home / "new.json")
        shell.open_gate()
        _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1
    assert err == (
        "dyno: the run stopped: new.json: removed, replaced or changed during the run; its results are lost\n"
    )
    # A removed file is not made anew without its beginning.
    assert (shell.home / "new.json").exists() == (damage is not remove)
    assert shell.strays() == []
    assert shell.left() == []


def test_run_file_is_locked_during_its_run(shell: Shell) -> None:
    shell.close_gate(passing=0)
    words = ("run", "records", "-e", "waiter", *small(samples=1), "-o", "new.json")
    # The first run replaces a file, so that the lock must be on the new file.
    (shell.home / "new.json").write_bytes(shell.file.read_bytes())
    with shell.started(*words, "--overwrite") as run:
        assert wait_for(shell.at_gate), run.poll()
        for how in ("--resume", "--overwrite"):
            assert_one_line(shell.dyno(*words, how), "new.json: another dyno is writing to it")
        assert shell.dyno("show", "new.json").status in (0, 3)
        shell.open_gate()
        run.communicate(timeout=PATIENCE)
    assert run.returncode == 0
    cells = [json.loads(line)["cell"] for line in (shell.home / "new.json").read_text().splitlines()[1:]]
    assert len(cells) == len(set(cells))
    # The kernel released the lock when the process ended.
    assert shell.dyno(*words, "--resume").status == 0


def test_file_replacing_the_run_file_is_left_unchanged(shell: Shell, ran: bytes) -> None:
    shell.close_gate(passing=0)
    with shell.started("run", "records", "-e", "waiter", *small(samples=1), "-o", "new.json") as run:
        assert wait_for(shell.at_gate), run.poll()
        shell.file.replace(shell.home / "new.json")
        shell.open_gate()
        _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1 and "removed, replaced or changed during the run" in err
    assert (shell.home / "new.json").read_bytes() == ran


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_run_interrupted_before_first_trial_leaves_no_file(shell: Shell, ran: bytes, more: tuple[str, ...]) -> None:
    shell.close_gate(passing=0)
    words = ("run", "records", "-e", "waiter", *small(samples=1), "-o", "r.json" if more else "new.json", *more)
    with shell.started(*words) as run:
        assert wait_for(shell.at_gate), run.poll()
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE)
    assert (run.returncode, out, err.splitlines()[-1]) == (130, "", "dyno: interrupted")
    assert not (shell.home / "new.json").exists()
    # With --overwrite, the old file is gone although the run completed no trial.
    assert (shell.home / "r.json").exists() is not bool(more)
    assert shell.strays() == []
    assert shell.left() == []


def test_open_file_limit_is_a_one_line_error(shell: Shell) -> None:
    ended = bash(shell, f"ulimit -n 8; dyno {' '.join(RUN)} -o new.json")
    assert (ended.status, ended.out) == (2, "")
    assert is_one_line(ended.err)
    assert ended.err.endswith("Too many open files; nothing was measured\n")
    assert shell.strays() == []
    assert shell.left() == []


# -- working directories and terminals --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["loop", "away", "file", "file/x", "/proc/x"])
def test_invalid_work_directory_is_a_one_line_error(shell: Shell, places: Path, name: str) -> None:
    assert_one_line(shell.dyno(*RUN, "-o", "new.json", "--work", name), f"can't use {name} as the work directory: ")
    ended = shell.dyno("doctor", "--work", name)
    assert ended.status == 2 and is_one_line(ended.err), ended


def test_removed_current_directory_is_a_one_line_error(shell: Shell) -> None:
    """The working directory is removed before the command runs."""
    gone = f"mkdir d && cd d && rmdir ../d && DYNO_WORK={shell.work}"
    assert_one_line(bash(shell, f"{gone} dyno report {shell.file} -o x.html"), "can't write x.html: No such file")
    assert_one_line(
        bash(shell, f"{gone} dyno {' '.join(RUN)} -o {shell.home}/n.json --work w"), "can't use w as the "
    )
    assert bash(shell, f"{gone} dyno show {shell.file}").status == 0


def test_commands_run_without_usual_environment_variables(shell: Shell) -> None:
    line = f"env -u PATH -u HOME -u LANG TERM= TMPDIR=/nowhere XDG_CACHE_HOME=/{'x' * 300}"
    assert bash(shell, f"{line} dyno {' '.join(RUN)} -o new.json").status == 0
    assert bash(shell, f"{line} dyno list").err == ""
    assert bash(shell, f"{line} dyno doctor").err == ""
    ended = bash(shell, f"{line} DYNO_WORK= dyno {' '.join(RUN)} -o other.json")
    assert_one_line(ended, "can't use /xxx")
    assert ended.err.endswith("File name too long; --work names another\n")


@pytest.mark.parametrize(
    ("columns", "environment"),
    [
        (0, {}),
        (1, {}),
        (100, {"COLUMNS": "0"}),
        (100, {"COLUMNS": "100000"}),
        (80, {"TERM": "dumb"}),
    ],
)
def test_tables_are_shown_at_any_terminal_width(shell: Shell, columns: int, environment: dict[str, str]) -> None:
    run = [(*RUN, "-o", "r.json", "--overwrite")] if columns == 0 else []
    for words in (("show", "r.json"), *run):
        status, sent = shell.on_terminal(*COMMAND, *words, columns=columns, **{"TERM": "xterm", **environment})
        assert status == 0
        # Columns wrap between words, not after each letter.
        assert "memory" in sent and "rand-key" in sent
