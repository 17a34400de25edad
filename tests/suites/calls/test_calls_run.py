"""The suite `calls` as a user runs it: functions that agree and disagree, `async def`, set-ups, and functions that do
harm to their process.
"""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shell import Shell, is_one_line

pytestmark = pytest.mark.usefixtures("processes")

BENCH = """
import asyncio, multiprocessing, os, sys, threading, time, zlib

def numbers(): return [list(range(size)) for size in (3, 30, 300)]
def plain(values): return sum(values)
def loop(values):
    total = 0
    for value in values:
        total += value
    return total
def as_float(values): return float(sum(values))
def wrong(values): return sum(values) + (len(values) == 30)
def random(values): return time.perf_counter_ns()
def right(values, answer): return answer == sum(values)
def sorts(values): values.sort(reverse=True); return values[0]
class Own:
    pass
def own(values): return Own()
def nothing(): return 7
def none(values): pass

DATA = bytes(1_000_000)
def base(_): zlib.crc32(DATA)
def slower(_): zlib.crc32(DATA); zlib.crc32(DATA[:500_000])
def three(): return [1, 2, 3]

async def sleeps(seconds):
    await asyncio.sleep(seconds)
    return seconds
def seconds(): return [0.002] * 10

def forks(_): os.fork()
def forks_well(_):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
def has_a_process(_):
    process = multiprocessing.get_context("fork").Process(target=int)
    process.start()
    process.join()
def moves(_): os.chdir("/")
def closes(_):
    if _ == 1:
        os.close(1)
def replaces(_): os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
LEAKED = []
def leaks(_): LEAKED.append(bytearray(10_000_000))
def exits(_): os._exit(3)
def leaves(_): sys.exit(4)
def raises(_): raise ValueError("not today")
def recurses(_): return recurses(_)
def threads(_):
    if not LEAKED:
        LEAKED.append(threading.Thread(target=threading.Event().wait, daemon=False))
        LEAKED[0].start()
def prints(_): print("x" * 100_000)
def generator(_): yield 1
def returns_generator(_): return (each for each in [1])
async def coroutine(): pass
def returns_coroutine(_): return coroutine()
def hangs(_): time.sleep(1_000)
VALUE = 7
"""
QUICK = ("--samples", 1, "--budget", 0.05, "--retries", 0)


@pytest.fixture
def bench(shell: Shell) -> Shell:
    (shell.home / "bench.py").write_text(BENCH)
    return shell


def run(shell: Shell, names: str, *words: object, status: int = 0) -> dict[str, dict[str, Any]]:
    """Runs the functions of bench.py, and returns their rows by name, and that of the floor."""
    engines = ",".join(f"bench.py:{name}" for name in names.split())
    ended = shell.dyno("run", "calls", "-e", engines, *QUICK, *words, "-o", shell.file, "--overwrite")
    assert ended.status == status, ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err
    assert shell.strays() == [] and shell.left() == []
    return {cell["engine"].removeprefix("call:function=bench.py:"): cell for cell in shell.shown()["cells"]}


NUMBERS = ("-p", "arguments=bench.py:numbers")


class Judged(NamedTuple):
    rows: dict[str, dict[str, Any]]
    samples: list[dict[str, Any]]
    """The samples of the functions `plain` and `loop`."""


@pytest.fixture(scope="module")
def judged(shared_shell: Shell) -> Judged:
    """A run of functions that agree with the first one, disagree with it, or can't be compared with it."""
    (shared_shell.home / "bench.py").write_text(BENCH)
    rows = run(shared_shell, "plain loop wrong as_float random own sorts", *NUMBERS, status=1)
    samples = shared_shell.samples()
    return Judged(rows, [samples[f"bench.py:{name}"]["call"] for name in ("plain", "loop")])


def test_agreeing_functions_are_valid_and_compared(judged: Judged) -> None:
    rows = judged.rows
    assert rows["plain"]["valid"] and rows["loop"]["valid"] and rows["noop"]["valid"]
    assert rows["loop"]["temperature"] == "hot" and rows["noop"]["floor"]
    assert "budget" not in {doubt["code"] for name in ("plain", "loop") for doubt in rows[name]["doubts"]}
    assert rows["plain"]["latency_ns"]["p50"] < rows["loop"]["latency_ns"]["p50"]
    for sample in judged.samples:
        assert sample["checked"] >= sample["operations"] > 3 and sample["unit"] == "call"
        assert [link.partition(":")[0] for link in sample["facts"]["answers_chain"].split()] == ["1", "2", "3"]


def test_function_that_disagrees_with_reference_is_void(judged: Judged) -> None:
    rows = judged.rows
    for name, argument, answer in (("wrong", "argument 2", "436"), ("as_float", "argument 1", "3.0")):
        why = rows[name]["why"]
        assert "disagrees with" in why and argument in why and answer in why and "bench.py:plain" in why
    assert "not deterministic: argument" in rows["random"]["why"]
    assert "it changes argument 1" in rows["sorts"]["why"] and "setup" in rows["sorts"]["why"]
    assert rows["own"]["valid"] and "unchecked" in {doubt["code"] for doubt in rows["own"]["doubts"]}


def test_check_judges_answers(bench: Shell) -> None:
    rows = run(bench, "plain loop wrong", *NUMBERS, "-p", "check=bench.py:right", status=1)
    assert rows["plain"]["valid"] and rows["loop"]["valid"]
    assert "argument 2" in rows["wrong"]["why"] and "by check" in rows["wrong"]["why"]


def test_function_runs_without_arguments_if_none_are_given(bench: Shell) -> None:
    rows = run(bench, "nothing")
    assert rows["nothing"]["valid"] and rows["nothing"]["operations"] > 1_000


def test_setup_gives_each_call_a_new_argument(bench: Shell) -> None:
    row = run(bench, "sorts", *NUMBERS, "-p", "setup=copy:copy")["sorts"]
    assert row["valid"] and row["operations"] > 100
    assert run(bench, "plain", "-p", "setup=bench.py:three")["plain"]["valid"]


@pytest.mark.serial
def test_a_planted_difference_is_found(bench: Shell) -> None:
    # A neighbour on the same processor can spread even CPU time by 20 %: six samples are then too few.
    words = ("--samples", 12, "--budget", 0.1, "-p", "arguments=bench.py:three")
    run(bench, "base slower", *words)
    # CPU time, because the tests share the machine with others.
    flags = ("--baseline", "bench.py:base", "--margin", "1%", "--metric", "cpu", "--json")
    ended = bench.dyno("compare", bench.file, *flags)
    assert ended.status == 0, ended.err
    (found,) = json.loads(ended.out)["comparisons"]
    assert found["kind"] == "slower" and 0.5 < found["ratio"] < 0.9, found


OWN_LOOP = """
import asyncio, sys, time
sys.path.insert(0, ".")
import bench
done = 0
async def client(end):
    global done
    while time.perf_counter() < end:
        await bench.sleeps(0.002)
        done += 1
async def main():
    begin = time.perf_counter()
    await asyncio.gather(*(client(begin + 1) for _ in range(64)))
    print(done / (time.perf_counter() - begin))
asyncio.run(main())
"""


@pytest.mark.serial
def test_coroutines_are_in_flight_together(bench: Shell) -> None:
    words = ("-p", "arguments=bench.py:seconds", "-p", "inflight=1,64", "--budget", 0.5)
    ended = bench.dyno("run", "calls", "-e", "bench.py:sleeps", *QUICK, *words, "-o", bench.file)
    assert ended.status == 0, ended.out + ended.err
    rows = {row["params"]["inflight"]: row for row in bench.shown()["cells"] if not row["floor"]}
    alone, together = (rows[places]["throughput"]["median"] for places in (1, 64))
    assert 200 < alone < 500
    assert together > 15 * alone
    own = bench.sh(sys.executable, "-c", OWN_LOOP)
    assert own.status == 0, own.err
    assert 0.5 < together / float(own.out) < 2


@pytest.mark.serial
def test_functions_run_with_several_clients_and_at_rate(bench: Shell) -> None:
    rows = run(bench, "plain moves random", *NUMBERS, "--clients", 2, status=1)
    assert rows["plain"]["valid"] and rows["plain"]["params"]["clients"] == 2
    assert "changed the current directory" in rows["moves"]["why"]
    assert "argument" in rows["random"]["why"]
    paced = run(bench, "plain", *NUMBERS, "--rate", 1_000, "--budget", 0.3)["plain"]
    assert paced["valid"] and 200 < paced["operations"] < 1_000 and paced["response_ns"]["p50"] > 0


HARM: Mapping[str, tuple[str, str]] = {
    "forks": ("void", "it forks, and the child returns"),
    "moves": ("void", "changed the current directory"),
    "closes": ("void", "it closed descriptor 1, standard output"),
    "replaces": ("void", "it replaced descriptor 0, standard input"),
    "exits": ("crash", "exited with status 3"),
    "leaves": ("crash", "exited with status 4"),
    "raises": ("error", "ValueError: not today"),
    "recurses": ("error", "RecursionError"),
    "generator": ("refused", "only creates a generator"),
    "returns_generator": ("void", "only creates a generator"),
    "returns_coroutine": ("void", "only creates a coroutine"),
    "missing": ("refused", "name missing is not known"),
    "VALUE": ("refused", "is not a function, but int"),
}


UNIMPORTABLE = {
    "broken.py:f": "ModuleNotFoundError: No module named 'no_such_module' (",
    "typo.py:f": "SyntaxError",
    "script.py:f": "SystemExit: usage (",
}
LEAVING = ("forks_well", "has_a_process", "threads", "prints")


@pytest.fixture(scope="module")
def harmed(shared_shell: Shell) -> dict[str, dict[str, Any]]:
    """A run of functions that do harm to their process, leave something in it, or can't be imported."""
    (shared_shell.home / "bench.py").write_text(BENCH)
    (shared_shell.home / "broken.py").write_text("import os\n\nimport no_such_module\n")
    (shared_shell.home / "typo.py").write_text("def f(:\n")
    (shared_shell.home / "script.py").write_text("import sys\nsys.exit('usage')\n")
    names = " ".join(["none", *HARM, *LEAVING])
    words = ("-e", ",".join(UNIMPORTABLE), "-p", "arguments=bench.py:three", "--timeout", 30)
    return run(shared_shell, names, *words, status=1)


def test_harmful_functions_are_invalid_with_the_reason(harmed: dict[str, dict[str, Any]]) -> None:
    for name, (how, why) in HARM.items():
        assert not harmed[name]["valid"], name
        assert how in harmed[name]["why"] and why in harmed[name]["why"], name
    assert harmed["none"]["valid"] and harmed["noop"]["valid"]


def test_functions_exceeding_memory_or_time_are_stopped(bench: Shell) -> None:
    words = ("-p", "arguments=bench.py:three", "--timeout", 5, "--memory", 0.5, "--samples", 1)
    rows = run(bench, "leaks hangs", *words, "--budget", 20, status=3)
    assert "used more than 0.50 GiB" in rows["leaks"]["why"]
    assert "not done after 5 s" in rows["hangs"]["why"]


def test_leftover_threads_and_output_are_caveats(harmed: dict[str, dict[str, Any]]) -> None:
    """A forked child that exits is no caveat."""
    assert all(harmed[name]["valid"] for name in LEAVING)
    for name, caveat in (("threads", "threads"), ("prints", "output")):
        assert caveat in {each["code"] for each in harmed[name]["caveats"]}
    for name in ("forks_well", "has_a_process"):
        assert harmed[name]["caveats"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-e", "none.py:f"], "there is no file none.py"),
        (["-e", "bench.py"], "expected FILE.py:NAME"),
        (["-e", "bench"], "engine bench is not known"),
        (["-e", "bench.py:a-b"], "expected FILE.py:NAME"),
        (["-e", "bench.py:plain", "-p", "arguments=none.py:f"], "there is no file none.py"),
        (["-e", "bench.py:plain", "-p", "check=right"], "expected FILE.py:NAME"),
        ([], "name the functions to compare"),
    ],
)
def test_usage_error_is_one_line_before_any_import(bench: Shell, words: list[str], said: str) -> None:
    (bench.home / "bench.py").write_text("raise SystemExit('imported')\n")
    ended = bench.run_here("run", "calls", *words)
    assert ended.status == 2 and said in ended.err and is_one_line(ended.err), ended.err


def test_import_error_names_file_and_line(harmed: dict[str, dict[str, Any]]) -> None:
    for function, said in UNIMPORTABLE.items():
        why = harmed[f"call:function={function}"]["why"]
        assert said in why and function.partition(":")[0] in why and "line" in why and "\n" not in why


def test_functions_run_from_modules_labels_and_relative_files(bench: Shell) -> None:
    (bench.home / "package").mkdir()
    (bench.home / "package" / "__init__.py").write_text("")
    (bench.home / "package" / "inner.py").write_text("import bench\ndef total(values): return bench.plain(values)\n")
    (bench.home / "data.txt").write_text("[[1, 2], [3]]")
    (bench.home / "reads.py").write_text("import json\ndef data():\n    return json.load(open('data.txt'))\n")
    engines = "mine=package.inner:total,bench.py:plain,builtins:sum"
    ended = bench.dyno("run", "calls", "-e", engines, *QUICK, "-p", "arguments=reads.py:data", "-o", bench.file)
    assert ended.status == 0, ended.out + ended.err
    assert all(cell["valid"] for cell in bench.shown()["cells"])
    for label in ("mine", "bench.py:plain", "builtins:sum"):
        assert f"\n{label} " in ended.out


def test_functions_are_found_relative_to_plan_file(bench: Shell) -> None:
    (bench.home / "below").mkdir()
    (bench.home / "bench.py").rename(bench.home / "below" / "bench.py")
    engines = '["bench.py:plain", { name = "call", function = "bench.py:loop", label = "loop" }]'
    plan = f'suite = "calls"\nengine = {engines}\n[param]\narguments = "bench.py:numbers"\n'
    (bench.home / "below" / "plan.toml").write_text(plan)
    ended = bench.dyno("run", "below/plan.toml", *QUICK, "-o", bench.file)
    assert ended.status == 0, ended.out + ended.err
    # The definition has no absolute path.
    definition = json.loads(bench.file.read_text().splitlines()[0])["definition"]
    assert definition == {"directory": "below", "reference": "bench.py:plain"}


def an_environment(home: Path, text: str) -> Path:
    """Creates an environment with Dyno and a package `shop` of this text, and returns its Python."""
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dyno.pth").write_text("\n".join(path for path in sys.path if path) + "\n")
    (packages / "shop").mkdir()
    (packages / "shop" / "__init__.py").write_text(text)
    return home / "bin" / "python"


def test_gate_sides_import_from_their_own_environments(shell: Shell) -> None:
    (shell.home / "head" / "shop").mkdir(parents=True)
    (shell.home / "head" / "shop" / "__init__.py").write_text("def work(): return 3\n")
    plan = 'suite = "calls"\nengine = ["shop:work"]\nsamples = 1\nbudget = 0.02\n'
    (shell.home / "head" / "plan.toml").write_text(plan)
    for side, text in (("base", "def work(): return 1\n"), ("head", "def work(): return 2\n")):
        python = an_environment(shell.home / f"venv-{side}", text)
        ended = shell.sh(python, "-m", "dyno", "run", "head/plan.toml", "-o", f"{side}.json")
        assert ended.status == 0, ended.out + ended.err
        assert "runs the installed shop" in (shell.home / f"{side}.json").read_text()
    ended = shell.dyno("check", "head.json", "--against", "base.json", "--json")
    differences = {each["what"]: (each["before"], each["after"]) for each in json.loads(ended.out)["differences"]}
    for side, file in zip(("base", "head"), differences["imported.shop.file"], strict=True):
        assert file.startswith(str(shell.home / f"venv-{side}")), file
    assert len(set(differences["imported.shop.sha256"])) == 2


SCRIPT = """
import os, sys
import dyno
found = dyno.run("calls", ["bench.py:plain", "bench.py:loop"], params={"arguments": "bench.py:numbers"},
                 samples=1, budget=0.05, path="r.json")
print(sorted(row.engine for row in found.rows if row.valid))
print(os.getpid(), 'bench' in sys.modules)
"""


def test_calls_run_from_python_imports_module_in_workers_only(bench: Shell) -> None:
    (bench.home / "bench.py").write_text(f"{BENCH}\nopen('pids.txt', 'a').write(f'{{os.getppid()}}\\n')\n")
    ended = bench.sh(sys.executable, "-c", SCRIPT)
    assert ended.status == 0, ended.err
    rows, process = ended.out.splitlines()
    assert rows == "['call:function=bench.py:loop', 'call:function=bench.py:plain', 'noop']"
    pid, imported = process.split()
    # Workers are children of the run.
    assert imported == "False" and set((bench.home / "pids.txt").read_text().split()) == {pid}
