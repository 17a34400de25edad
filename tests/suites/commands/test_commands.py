"""`dyno time` and the suite `commands`, as a user of hyperfine would try them."""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any

import pytest
from shell import Shell

pytestmark = pytest.mark.usefixtures("processes")

PYTHON = sys.executable


def timed(shell: Shell, *words: object, status: int = 0) -> dict[str, dict[str, Any]]:
    """Runs `dyno time`, and returns the rows by their commands."""
    ended = shell.dyno("time", *words, "-o", shell.file, "--overwrite")
    assert ended.status == status, ended.out + ended.err
    cells = [cell for cell in shell.shown()["cells"] if not cell["floor"]]
    return {cell["engine"].partition("run=")[2]: cell for cell in cells}


def median_s(cell: dict[str, Any]) -> float:
    return 1 / float(cell["throughput"]["median"])


def test_same_voids_commands_with_failure_or_other_output(shell: Shell) -> None:
    (shell.home / "fails.sh").write_text("echo went wrong >&2; exit 3\n")
    rows = timed(shell, "echo one", "sh fails.sh", "echo two", "echo  one", "--same", "-r", 3, status=1)
    assert rows["echo one"]["valid"] and rows["echo  one"]["valid"]
    assert "exit status 3" in rows["sh fails.sh"]["why"] and "went wrong" in rows["sh fails.sh"]["why"]
    assert "disagrees with" in rows["echo two"]["why"] and "two" in rows["echo two"]["why"]


def test_output_may_differ_and_ignore_accepts_exit_statuses(shell: Shell) -> None:
    (shell.home / "fails.sh").write_text("exit 3\n")
    rows = timed(shell, "echo one", "echo two", "sh fails.sh", "--ignore", "2,3", "-r", 2)
    assert all(row["valid"] for row in rows.values())
    assert rows["sh fails.sh"]["facts"]["exit_statuses"] == "1x3"
    assert "killed by signal 9" in timed(shell, "sh -c 'kill -9 $$'", "-r", 1, status=3)["sh -c 'kill -9 $$'"]["why"]


def test_program_that_kills_its_parent_is_named(shell: Shell) -> None:
    command = "sh -c 'kill -9 $PPID'"
    why = timed(shell, command, "-r", 1, status=3)[command]["why"]
    assert f"was killed by signal 9, perhaps by the program itself: {command}" in why


def test_wall_and_cpu_times_are_those_of_commands(shell: Shell) -> None:
    busy = f"{PYTHON} -S -c 'for i in range(4_000_000): pass'"
    ended = shell.dyno("time", "sleep {s}", "-p", "s=0.05,0.1", "-r", 3, "-o", shell.file)
    assert ended.status == 0, ended.err
    cells = {cell["params"]["s"]: cell for cell in shell.shown()["cells"] if not cell["floor"]}
    assert {name: float(name) <= median_s(cell) < 10 for name, cell in cells.items()} == {"0.05": True, "0.1": True}
    idle, parts = cells["0.1"], timed(shell, busy, "-n", "busy", "-r", 3)[busy]
    assert parts["latency_by_part_ns"]["user-time"]["p50"] > 10 * idle["latency_by_part_ns"]["user-time"]["p50"]
    assert parts["cpu_ns_per_item"]["client"] > 10 * idle["cpu_ns_per_item"]["client"]


def test_peak_memory_is_that_of_the_command(shell: Shell) -> None:
    rows = timed(shell, f"{PYTHON} -S -c 'bytes(range(8)) * (25 << 20)'", "true", "-r", 3)
    small, large = sorted(row["client_peak_bytes"] for row in rows.values())
    assert 200 << 20 < large < 250 << 20 and 0 < small < 20 << 20


def test_commands_run_in_users_directory_and_environment(shell: Shell) -> None:
    shell.given = {"PYTHONHASHSEED": "7"}
    (shell.home / "in.txt").write_text("from a file")
    timed(shell, "cat > out.txt; env > env.txt", "--shell", "--input", "in.txt", "-r", 1)
    assert (shell.home / "out.txt").read_text() == "from a file"
    environment = dict(line.partition("=")[::2] for line in (shell.home / "env.txt").read_text().splitlines())
    assert environment["PYTHONHASHSEED"] == "7"
    assert "PYTHONUTF8" not in environment and not any(name.startswith("DYNO_USERS") for name in environment)


def test_setup_prepare_conclude_cleanup_run_once_per_scope(shell: Shell) -> None:
    around = {name: f"echo {name} >> log" for name in ("setup", "prepare", "conclude", "cleanup")}
    flags = [word for name, script in around.items() for word in (f"--{name}", script)]
    timed(shell, "sh -c 'echo run >> log'", "-r", 20, "-w", 1, *flags)
    block = ["setup", *["prepare", "run", "conclude"] * 3, "cleanup"]
    assert (shell.home / "log").read_text().split() == block * 10


def test_a_cold_run_reads_from_the_device(shell: Shell) -> None:
    (shell.home / "tree").mkdir()
    (shell.home / "tree" / "data").write_bytes(bytes(8 << 20))
    row = timed(shell, "cat tree/data", "--cold", "--files", "tree", "-r", 3)["cat tree/data"]
    assert row["phase"] == "execute-cold"
    if row["temperature"] == "cold":
        assert row["client"]["read_bytes"] >= 8 << 20
    else:
        assert "lukewarm" in {doubt["code"] for doubt in row["doubts"]}


def test_export_json_has_hyperfines_format(shell: Shell) -> None:
    timed(shell, "sleep {s}", "-p", "s=0.01,0.02", "-r", 20, "--export-json", "h.json")
    results = json.loads((shell.home / "h.json").read_text())["results"]
    assert [result["parameters"] for result in results] == [{"s": "0.01"}, {"s": "0.02"}]
    for result in results:
        assert result["command"] == "sleep {s}" and len(result["times"]) == len(result["exit_codes"]) == 20
        assert result["min"] <= result["median"] <= result["max"] and set(result["exit_codes"]) == {0}
        assert float(result["parameters"]["s"]) <= result["mean"] < 10 and result["user"] < result["mean"]


def test_plan_file_may_list_commands(shell: Shell) -> None:
    (shell.home / "below").mkdir()
    (shell.home / "below" / "in.txt").touch()
    (shell.home / "below" / "plan.toml").write_text(
        """
        suite = "commands"
        samples = 3
        engine = ["cat in.txt", { name = "command_line", run = "sleep 0.02", label = "twice", prepare = "true" }]
        param = { repetitions = 1 }
        """
    )
    ended = shell.dyno("run", "below/plan.toml", "-o", shell.file)
    assert ended.status == 0, ended.err
    assert "cat in.txt " in ended.out and "twice " in ended.out and "command:run" not in ended.out
    compared = shell.dyno("compare", shell.file, "--metric", "time")
    assert compared.status == 0 and "twice" in compared.out and "shorter time" in compared.out, (
        compared.out + compared.err
    )


def test_interrupt_ends_commands_and_shows_partial_results(shell: Shell) -> None:
    with shell.started("time", "sleep 0.2", "sleep 60", "-r", 3) as process:
        deadline = time.monotonic() + 60
        while "sleep 60" not in commands() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and "sleep 60" not in commands()
    assert "Not complete" in out or "sleep 0.2" not in out, out


def commands() -> list[str]:
    import psutil

    return [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-program-xyz 1"], "no-such-program-xyz"),
        (["echo 'open"], "quotation"),
        ([""], "expected a command"),
        (["true", "-p", "sise=1"], "sise"),
        (["true", "-n", "a", "-n", "b"], "2 times"),
        (["true", "--cold"], "--files"),
        (["true", "true 1", "true 2", "--prepare", "a", "--prepare", "b"], "--prepare"),
        (["true", "-r", "3", "--samples", "4"], "--runs"),
        (["true", "true"], "given twice"),
        (["true", "--resume"], "-o RUN"),
        (["true", "--ignore", "x"], "exit statuses"),
        (["true", "--export-json", "no/such/directory.json"], "directory"),
    ],
)
def test_usage_error_is_one_line(words: list[str], message: str, shell: Shell) -> None:
    ended = shell.dyno("time", *words)
    assert ended.status == 2 and message in ended.err and len(ended.err.splitlines()) == 1, ended.err
    assert not ended.out


def test_failing_prepare_and_missing_input_are_named(shell: Shell) -> None:
    for words, message in ((["--prepare", "exit 4"], "prepare failed, exit status 4"), (["--input", "gone"], "gone")):
        (row,) = timed(shell, "true", "-r", 1, *words, status=3).values()
        assert message in row["why"]
