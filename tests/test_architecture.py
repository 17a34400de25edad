"""Tests the direction of imports: which package may import which, in the source and at run time.

    plan --> parent --> worker --> sample --> run file --> stats --> report

Data flows in this direction only. Only the registry imports engines, engines import nothing of the runner, and an
engine's library is imported only inside its worker.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import click
import pytest
from shell import Shell

import dyno
from dyno import registry
from dyno.cli.commands import COMMANDS
from dyno.cli.commands import dyno as dyno_command
from dyno.crash import known_results

ROOT = Path(dyno.__file__).parent
RUST = ROOT.parents[1] / "rust"


@dataclass(frozen=True)
class Import:
    """An imported module. For `from a import b`, that is `a.b` if it is a module of Dyno, else `a`."""

    by: str
    of: str
    line: int
    top: bool
    """True if the import is outside functions and not for type checking, so that importing `by` executes it."""

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of}"


def module(path: Path) -> str:
    parts = ("dyno", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(name: str) -> list[Import]:
    path = PATHS[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    return [
        Import(name, of, node.lineno, top)
        for node, top in _nodes(tree, True)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for of in _named(node, package)
    ]


def _nodes(node: ast.AST, top: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, top
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        yield from _nodes(child, top and not inside and not for_types)


def _named(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    source = ".".join([*base, *filter(None, [node.module])])
    for alias in node.names:
        inner = f"{source}.{alias.name}"
        yield inner if inner in PATHS else source


IMPORTS = {name: imports(name) for name in PATHS}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def bad(who: Iterator[str] | list[str], *what: str) -> list[str]:
    """Returns every import of `what` by `who`, as text."""
    return [str(found) for name in who for found in IMPORTS[name] if within(found.of, *what)]


def modules(*packages: str, without: tuple[str, ...] = ()) -> list[str]:
    names = [name for name in PATHS if within(name, *packages) and name not in without]
    assert names, packages
    return names


def test_modules_have_no_circular_imports() -> None:
    """Imports inside functions and for type checking count too. What a package hands on from its modules does not."""
    files = {name for name, path in PATHS.items() if path.name != "__init__.py"}
    TopologicalSorter({name: {found.of for found in IMPORTS[name]} & files for name in files}).prepare()


RUNNING = ("dyno.runner", "dyno.measure", "dyno.cli")
WORKERS = ("dyno.measure.worker", "dyno.measure.remote")
"""Modules that run a trial or a part of it, in processes of their own."""
LISTS = ("dyno.engines", "dyno.registry", "dyno.suites")
FRONTENDS_OF_SUITES = {
    "dyno.cli.http": "dyno.suites.http",
    "dyno.http": "dyno.suites.http",
    "dyno.library.function": "dyno.suites.calls",
    "dyno.selftest.conformance": "dyno.suites._shared",
}
"""Modules outside suites and engines that use a part of one suite, with that suite."""


def test_imports_of_every_form_are_found() -> None:
    """Imports of every form are found: if some were overlooked, the other tests would pass wrongly."""
    found = {(str(found.by), found.of) for every in IMPORTS.values() for found in every}
    assert ("dyno.registry", "dyno.engines") in found, "import a.b"
    assert ("dyno.runner.parent", "dyno.host.facts") in found, "from a import b"
    assert ("dyno.runner.trial", "dyno.runner.plan") in found, "from a.b import name"
    for_types, library = (found for found in IMPORTS["dyno.engines.lmdb"] if found.of == "lmdb")
    assert not for_types.top, "for type checking"
    assert not library.top, "inside a function"
    assert len(PATHS) > 40


@pytest.mark.claim("Statistics and reports come from run files alone")
def test_stats_and_report_import_no_runner_or_registry() -> None:
    assert bad(modules("dyno.stats", "dyno.report"), *RUNNING, *LISTS) == []
    # No report may import even the types of declarations.
    assert bad(modules("dyno.stats", "dyno.report"), "dyno.contracts.suite") == []


# Names of suites that other packages may use too: parameters of every suite, and terms of run files and reports.
GENERAL = {
    "clients",
    "rate",
    "operations",
    "records",
    "ratio",
    "write",
    "rows",
    "column",
    "series",
    "cpu",
    "memory",
    "tables",
    "flush",
    "size",
    "range",
    "part",
    "list",
}
GENERAL |= {"columns", "load", "max", "method", "open", "reused", "shape", "size", "sum", "unsteady"}


def names_of_suites() -> set[str]:
    """Returns the phases, parameters and kinds that Dyno's suites declare, and the facts of their tables and
    charts."""
    words: set[str] = set()
    for suite in (registry.suite(path.name) for path in (ROOT / "suites").iterdir() if path.name[0].isalpha()):
        words |= {suite.name} | {setting.name for setting in suite.params}
        for phase in suite.phases:
            words |= {phase.name, *phase.kinds, *phase.parts}
        words |= {column.name for column in suite.layout.columns if column.of == "fact"} if suite.layout else set()
        words |= {axis.name for chart in suite.charts for axis in (chart.x, chart.y) if axis.of == "fact"}
        words |= {name for chart in suite.charts for name in (chart.name, chart.line, chart.point) if name}
    return words


def test_stats_and_report_contain_no_suite_names() -> None:
    """The run file describes its suite, so a new suite needs no change in stats and report."""
    names = names_of_suites() - GENERAL
    assert {"gets", "batch", "packer", "rand-key", "get", "scan", "tradeoff", "stored_bytes"} <= names
    docstrings = {
        id(node.value) for path in PATHS.values() for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)
    }
    found = [
        f"{name}:{node.lineno}: {node.value!r}"
        for name in modules("dyno.stats", "dyno.report")
        for node in ast.walk(tree(PATHS[name]))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in names
        and id(node) not in docstrings
    ]
    assert found == []


def test_stats_does_not_import_report() -> None:
    assert bad(modules("dyno.stats"), "dyno.report") == []


def test_base_modules_and_results_import_nothing_above() -> None:
    above = (*RUNNING, *LISTS, "dyno.stats", "dyno.report", "dyno.published")
    words = [
        "dyno.contracts.model",
        "dyno.contracts.settings",
        "dyno.contracts.engine",
        "dyno.contracts.programs",
        "dyno.host.interpreters",
        "dyno.host.directories",
        "dyno.contracts.suite",
        "dyno.contracts.pace",
        *modules("dyno.results"),
        "dyno.contracts.histogram",
        "dyno.contracts.safe_read",
        "dyno.contracts.sanitize",
    ]
    assert bad(words, *above) == []
    assert {found.of for found in IMPORTS["dyno.contracts.model"] if within(found.of, "dyno")} == {
        "dyno.contracts.value_types"
    }
    assert bad(["dyno.contracts.value_types"], "dyno") == []


def test_host_imports_only_itself_and_native_module() -> None:
    found = [found for name in modules("dyno.host") for found in IMPORTS[name]]
    # The native module may be imported, since it imports nothing of Dyno.
    known = ("dyno.host", "dyno._native")
    assert [str(f) for f in found if within(f.of, "dyno") and not within(f.of, *known)] == []


def test_contracts_import_only_contracts_and_host() -> None:
    found = [found for name in modules("dyno.contracts") for found in IMPORTS[name]]
    known = ("dyno.contracts", "dyno.host", "dyno._native")
    assert [str(f) for f in found if within(f.of, "dyno") and not within(f.of, *known)] == []


def test_runner_and_measure_import_no_engine_or_suite() -> None:
    assert bad(modules("dyno.runner", "dyno.measure"), "dyno.engines", "dyno.suites") == []
    # The plan reads declarations; the worker and its fork server need them to run.
    readers = ("dyno.runner.plan", "dyno.runner.rows", "dyno.runner.worker_pool", *WORKERS)
    assert bad(modules("dyno.runner", "dyno.measure", without=readers), "dyno.registry") == []


def test_runner_and_measure_import_no_report_or_cli() -> None:
    assert bad(modules("dyno.runner", "dyno.measure"), "dyno.report", "dyno.stats", "dyno.cli") == []


def test_library_imports_no_cli_and_serves_frontends_only() -> None:
    assert bad(modules("dyno.library"), "dyno.cli", "dyno.engines", "dyno.registry", "dyno.install") == []
    users = modules(
        "dyno", without=(*modules("dyno.library", "dyno.cli"), "dyno", "dyno.runner", "dyno.pytest_plugin")
    )
    assert bad(users, "dyno.library") == []


def test_measure_does_not_import_runner() -> None:
    assert bad(modules("dyno.measure"), "dyno.runner") == []


def test_the_parent_does_not_import_the_worker() -> None:
    # The fork server imports the worker inside a function, which runs in a process of its own.
    others = modules("dyno", without=("dyno.runner.worker_pool", *WORKERS))
    assert bad(others, "dyno.measure.worker") == []
    assert [found.top for found in IMPORTS["dyno.runner.worker_pool"] if found.of == "dyno.measure.worker"] == [
        False,
        False,
    ]


def test_install_is_imported_only_by_its_commands() -> None:
    """Nothing is downloaded while a run or a report is made. A bisection installs the versions that it needs."""
    others = modules("dyno", without=(*modules("dyno.install"), "dyno.cli.engines", "dyno.cli.bisect"))
    assert bad(others, "dyno.install") == []
    assert bad(modules("dyno.install"), *RUNNING, "dyno.stats", "dyno.report", "dyno.registry", "dyno.suites") == []


def test_the_registry_alone_imports_engines_and_suites() -> None:
    others = [name for name in PATHS if name != "dyno.registry" and not within(name, "dyno.engines")]
    assert bad(others, "dyno.engines") == []
    # An engine implements a suite's port, and may use the suite's helpers for it.
    outside = [name for name in others if not within(name, "dyno.suites") and name not in FRONTENDS_OF_SUITES]
    assert bad(outside, "dyno.suites") == []
    for name, suite in FRONTENDS_OF_SUITES.items():
        suites = [each.of for each in IMPORTS[name] if within(each.of, "dyno.suites")]
        assert suites and all(within(each, suite) for each in suites)


def test_dynamic_imports_occur_only_in_known_modules() -> None:
    """Dynamic imports would escape the other tests."""
    dynamic = ("import_module", "__import__", "exec", "eval")
    importers = set()
    for name in modules("dyno", without=tuple(modules("dyno.engines"))):
        path = PATHS[name]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if called in dynamic:
                    importers.add(name)
    # Declarations: a port's class may be declared by its path, and is imported in the worker.
    assert importers == {"dyno.registry", "dyno.cli.commands", "dyno.contracts.declarations"}


@pytest.mark.parametrize("name", modules("dyno.engines", without=("dyno.engines",)))
def test_engine_imports_no_other_engine_runner_or_report(name: str) -> None:
    # An engine may import modules of its own family, shared modules of other families, and servers.
    own = ".".join(name.split(".")[:3])
    families = {other.rpartition(".")[0] for other in PATHS if ".engine_" in other or other.endswith(".engines")}
    others = [
        other
        for other in modules("dyno.engines", without=("dyno.engines",))
        if not within(other, own) and not (within(other, *families) and ".engine_" not in other)
    ]
    above = (*RUNNING, "dyno.stats", "dyno.report", "dyno.registry", "dyno.results", "dyno.published")
    found = [found for found in IMPORTS[name] if within(found.of, *others, *above)]
    assert [str(each) for each in found if not re.match(r"dyno\.engines\.\w+\.server", each.of)] == []


@pytest.mark.claim("The parent never imports an engine's library")
@pytest.mark.parametrize("name", modules("dyno.engines"))
def test_engine_module_imports_no_library_at_top_level(name: str) -> None:
    allowed = {*sys.stdlib_module_names, "dyno"}
    assert [str(found) for found in IMPORTS[name] if found.top and found.of.partition(".")[0] not in allowed] == []


def test_suite_imports_no_engine_runner_or_report() -> None:
    above = (*RUNNING, "dyno.stats", "dyno.report", "dyno.results", "dyno.registry", "dyno.engines", "dyno.published")
    assert bad(modules("dyno.suites"), *above) == []


def test_suite_imports_no_other_suite() -> None:
    for suite in (path.name for path in (ROOT / "suites").iterdir() if path.is_dir() and path.name[0].isalpha()):
        own = f"dyno.suites.{suite}"
        found = [found for name in modules(own) for found in IMPORTS[name]]
        known = (own, "dyno.suites._shared")
        assert [str(f) for f in found if within(f.of, "dyno.suites") and not within(f.of, *known)] == []


def test_engine_names_occur_only_in_their_families() -> None:
    """There is no `if engine == ...`: the quoted name of an engine occurs in its own family only."""
    # These names have other meanings too: "memory" is a suite, "synthetic" a port, "parquet" a format, "directory" a
    # kind of file, "native" and "python" are loops, and Dyno uses the libraries numpy, pandas and pyarrow itself.
    words = {"memory", "synthetic", "parquet", "native", "python", "directory", "numpy", "pandas", "pyarrow"}
    # A port, a phase and a unit.
    words |= {"call"}
    names = {spec.name for spec in registry.engines()} - words
    found = [
        f"{name}:{node.lineno} names {node.value}"
        for name, path in PATHS.items()
        if not within(name, "dyno.engines", "dyno.servers")
        for tree in [ast.parse(path.read_text())]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in names
        and node not in by_default(name, tree)
        # `null` is also a generator of columns.
        and not (node.value == "null" and within(name, "dyno.suites.sql"))
    ]
    assert found == []


def by_default(name: str, tree: ast.AST) -> list[ast.AST]:
    """Returns the names in `engines = (...)` of a suite's declaration, which are its default engines."""
    if not within(name, "dyno.suites") or name.count(".") != 2:
        return []
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    return [
        part
        for node in named
        if [ast.unparse(target) for target in node.targets] == ["engines"]
        for part in ast.walk(node.value)
    ]


@pytest.mark.claim("The timed loops are small")
@pytest.mark.parametrize(
    ("name", "known", "timed"),
    [
        (
            "dyno.measure.loop",
            {
                "dyno.contracts.decoded_types",
                "dyno.contracts.model",
                "dyno.contracts.native",
                "dyno.contracts.suite",
                "dyno.host.usage",
            },
            {"closed", "paced", "_wait", "bulk"},
        ),
        ("dyno.measure.pipelined_loop", {"dyno.contracts.suite", "dyno.measure.loop"}, {"run_pipelined"}),
    ],
)
def test_the_timed_loops_are_small(name: str, known: set[str], timed: set[str]) -> None:
    assert {found.of for found in IMPORTS[name] if within(found.of, "dyno")} == known
    tree = ast.parse(PATHS[name].read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in timed]
    assert {function.name for function in functions} == timed
    # Count the lines of each function without its docstring.
    lines = sum(
        (function.end_lineno or 0)
        - ((function.body[0].end_lineno if ast.get_docstring(function) else None) or function.lineno)
        for function in functions
    )
    assert 20 < lines < 80


@pytest.mark.claim("The timed loops are small")
def test_the_native_loops_are_in_one_small_file() -> None:
    lines = (RUST / "measure" / "src" / "steps.rs").read_text().splitlines()
    assert 50 < len(lines) < 200
    calling = [path.name for path in RUST.glob("*/src/*.rs") if "unsafe { vectorcall(" in path.read_text()]
    assert calling == ["steps.rs"], "calls of operations"


@pytest.mark.claim("The timed loops are small")
def test_the_native_loop_names_no_engine() -> None:
    # These names have other meanings in the native code: the null pointer, memory, the native loop, Python, NumPy,
    # a command's directory, and calls.
    words = {"memory", "null", "native", "python", "numpy", "directory", "call"}
    names = {spec.name for spec in registry.engines()} - words
    assert {"lmdb", "sqlite"} <= names
    named = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b", re.IGNORECASE)
    files = [file for crate in ("measure", "crash") for file in (RUST / crate).rglob("*") if file.is_file()]
    assert len(files) > 3
    assert [f"{path.name}: {found}" for path in files for found in named.findall(path.read_text())] == []


# A user's own program, which does everything in one process except trials.
EXECUTE = """
import json, sys
from pathlib import Path
from dyno.report.export import as_data
from dyno.runner import parent, plan
from dyno.options import RunRequest

request = RunRequest(
    "records", engines={engines!r}, params={{"records": ["100"]}}, samples=1, phases=["rand-key"]
)
run = parent.execute(plan.make(request), Path("r.json"), Path("work"))
cells = as_data(run)["cells"]
print(json.dumps([[cell["engine"] for cell in cells if cell["valid"]], sorted(sys.modules)]))
"""


@pytest.mark.claim("The parent never imports an engine's library")
def test_run_imports_no_engine_library_into_parent(shell: Shell) -> None:
    able = registry.engines_for(registry.suite("records"))
    specs = [
        spec
        for spec in able
        if spec.listing.by_default and not spec.find_missing_modules() and spec.installation.modules
    ]
    names = [spec.name for spec in specs]
    assert {"lmdb", "leveldb", "rocksdb", "duckdb"} <= set(names)
    status, out, err = shell.sh(sys.executable, "-c", EXECUTE.format(engines=names))
    assert status == 0, err
    ran, loaded = json.loads(out)
    assert set(names) <= set(ran), "they were used"
    # SQLite's library is part of Python, so it is not counted.
    libraries = {library for spec in specs for library in spec.installation.modules} - set(sys.stdlib_module_names)
    assert {"lmdb", "plyvel", "rocksdict", "duckdb", "sortedcontainers"} <= libraries
    assert libraries & set(loaded) == set()
    assert "dyno.measure.worker" not in loaded


HEAVY = (
    "msgspec",
    "numpy",
    "scipy",
    "pyarrow",
    "hdrh",
    "jinja2",
    "vl_convert",
    "rich.progress",
    "psutil",
    "ssl",
    "http.client",
)


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["list"], ["list", "engines"]])
def test_help_and_list_import_no_heavy_modules(shell: Shell, words: list[str]) -> None:
    shell.given["XDG_CACHE_HOME"] = str(shell.home)
    fields = dict.fromkeys(known_results.NAMES, "") | dict.fromkeys(known_results.WAYS)
    killed = {"count": 1, "outcomes": {"ok": 1}, "lost": 0}
    # The list also shows results of crashes on this machine.
    known_results.keep(shell.home / "dyno", {**fields, "engine": "sqlite", "settings": {}, "killed": killed})
    program = f"""
import sys
sys.argv[1:] = {words!r}
from dyno.cli import main
try:
    main()
finally:
    print(*({set(HEAVY)!r} & sys.modules.keys()), sep=",", file=sys.stderr)
"""
    ended = shell.sh(sys.executable, "-c", program)
    assert (ended.status, ended.err.strip()) == (0, "")


def test_listed_command_summary_equals_its_help() -> None:
    for name, (_, does) in COMMANDS.items():
        command = dyno_command.get_command(click.Context(dyno_command), name)
        assert command is not None and " ".join((command.help or "").split("\n\n")[0].split()) == does
