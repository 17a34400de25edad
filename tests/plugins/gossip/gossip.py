"""Test engines, not real ones, and a suite, whose texts and values are invalid or harmful to a terminal or page.
Their answers are right. Not for measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dyno.contracts.engine import EngineSpec, Gap, Listing, PortSpec
from dyno.contracts.model import Caveat, Phase, Preset, Refused, Tier, Value
from dyno.contracts.settings import Setting, choice
from dyno.contracts.suite import Job, Report, Reported, Work, Workload
from dyno.engines import memory
from dyno.suites._shared.ordered_kv import KVReader

MARKUP = "</script><img src=x onerror=alert(1)> [/red] | `x`"
HARM = f"\x1b[31mred\x1b]0;title\x07 \u202egnp.exe\u2066 \0 \udc80\ud800 \u2028 {MARKUP}"
"""Terminal control sequences, reversed text direction, invisible characters, unencodable characters, and markup."""
LONG = 10_000_000


def nested(depth: int) -> Any:
    found: Any = "deep"
    for _ in range(depth):
        found = {"deeper": found}
    return found


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no comment")


# -- engines ------------------------------------------------------------------------------------------------------

SETTINGS: Mapping[str, Callable[[], Any]] = {
    "nan": lambda: {"cache": float("nan")},
    "infinite": lambda: {"cache": float("-inf")},
    "nested": lambda: {"cache": nested(900)},
    "nested-deeply": lambda: {"cache": nested(100_000)},
    "object": lambda: {"cache": object()},
    "list": lambda: {"cache": [1, 2]},
    "large": lambda: {"cache": 1 << 64},
    "many": lambda: {f"cache{number}": number for number in range(10_000)},
    "no-name": lambda: {1: "cache"},
    "pairs": lambda: [("cache", 1)],
    "harmful": lambda: {HARM: HARM, "fine": "ä" * LONG, "two": "two\nlines"},
}
VERSIONS: Mapping[str, Callable[[], Any]] = {"none": lambda: None, "bytes": lambda: b"1.0", "harmful": lambda: HARM}
CAVEATS: Mapping[str, Callable[[], Iterable[Any]]] = {
    "text": lambda: ["slow"],
    "number": lambda: [Caveat("code", 7)],  # type: ignore[arg-type]
    "code": lambda: [Caveat("a [/red] | code", "fine")],
    "no-code": lambda: [Caveat(["a"], "fine")],  # type: ignore[arg-type]
    "many": lambda: (Caveat(f"c{number}", "fine") for number in range(10**9)),
    "harmful": lambda: [Caveat("harmful", HARM)],
}
RAISED: Mapping[str, Callable[[], Exception]] = {
    "harmful": lambda: OSError(HARM),
    "long": lambda: OSError("x" * LONG),
    "unspeakable": Unspeakable,
}


class Talker(memory.Memory):
    def __init__(self, home: Path, tier: Tier, options: Mapping[str, Value]) -> None:
        super().__init__(home, tier, options)
        self.options = options
        # Spares the conformance checks.
        self.raised = RAISED.get(str(options["raises"])) if home.name == "loaded" else None
        if options["prints"] == "harmful":
            print(HARM.encode(errors="backslashreplace").decode(), "\x1b[2J\u202e", flush=True)
        if options["refuses"] in RAISED:
            raise Refused(str(RAISED[str(options["refuses"])]()))
        if options["fails"] in RAISED and "conformance" not in home.parts:
            raise RAISED[str(options["fails"])]()

    def version(self) -> Any:
        return VERSIONS.get(str(self.options["release"]), super().version)()

    def settings(self) -> Any:
        return SETTINGS.get(str(self.options["settings"]), super().settings)()

    def caveats(self) -> Any:
        return CAVEATS.get(str(self.options["caveats"]), super().caveats)()


class Reads(KVReader):
    """Every other get raises an error if the option requests it."""

    def __init__(self, engine: Talker) -> None:
        self._store, self._gets, self._raised = engine.store, 0, engine.raised

    def get(self, key: bytes) -> bytes | None:
        self._gets += 1
        if self._raised is not None and self._gets % 2:
            raise self._raised()
        found: bytes | None = self._store.get(key)
        return found

    def seek(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        return ((found, self._store[found]) for found in self._store.irange(key))


class Keys(memory.Keys):
    def __init__(self, engine: Talker) -> None:
        super().__init__(engine)
        self._engine = engine

    def reading(self) -> AbstractContextManager[Any]:
        return nullcontext(Reads(self._engine))


def one_of(name: str, what: str, *values: str) -> Setting:
    return Setting(name, choice("no", *values), "no", what)


TALKER = replace(
    memory.ENGINE,
    name="talker",
    title="Test engine: says what it may not",
    opener=Talker,
    ports={"ordered-kv": PortSpec(Keys)},
    options=(
        one_of("settings", "its settings", *SETTINGS),
        one_of("release", "its version", *VERSIONS),
        one_of("caveats", "its caveats", *CAVEATS),
        one_of("refuses", "what it refuses to be opened with", *RAISED),
        one_of("fails", "what it fails to be opened with", *RAISED),
        one_of("raises", "what every other get raises", *RAISED),
        one_of("prints", "what it prints", "harmful"),
    ),
    listing=Listing(by_default=False),
)
HARMFUL_TITLE = replace(TALKER, name="harmful-title", title=HARM)
HARMFUL_GAP = replace(
    TALKER, name="harmful-gap", ports={"ordered-kv": PortSpec(Keys, gaps=(Gap("order", "todo", HARM),))}
)
HARMFUL_NEEDS = replace(
    TALKER, name="harmful-needs", installation=replace(TALKER.installation, needs=lambda options: HARM)
)


# -- a suite ------------------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {"tool": "tool 1.0", "operations": 10, "items": 10, "elapsed_ns": 5_000_000}
REPORTS: Mapping[str, dict[str, Any]] = {
    "good": {},
    "harmful": {"tool": HARM, "errors": 1, "first_error": HARM, "facts": {HARM: HARM}},
    "too-long": {"elapsed_ns": 3_600 * 10**9},
    "too-many": {"operations": 5 * 10**17, "items": 5 * 10**17, "elapsed_ns": 1_000},
    "too-busy": {"cpu_ns": (3_600 * 10**9, 0)},
    "negative": {"operations": -10},
    "fraction": {"items": 2.5},
    "nan-fact": {"facts": {"ratio": float("nan")}},
    "object-fact": {"facts": {"ratio": object()}},
    "no-tool": {"tool": None},
}


class FibsWorkload(Workload):
    """One phase that, according to its report, an external tool executed and measured."""

    def __init__(self, job: Job) -> None:
        self._job, self._engine = job, job.open(job.home)

    def conformance(self) -> None:
        pass

    def prepare(self, phase: Phase) -> None:
        pass

    def connect(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def engine(self) -> Any:
        return self._engine

    def release(self) -> None:
        pass

    def work(self, phase: Phase, port: Any, client: int, clients: int, round: int) -> Iterator[Work]:
        told = {**GOOD, **REPORTS[str(self._job.options["report"])]}
        yield Reported(lambda limit_ns: Report(**told), lambda report: 1)

    def trial_facts(self) -> Mapping[str, Any]:
        return {"trial": HARM} if self._job.options["report"] == "harmful" else {}

    def close(self) -> None:
        pass


class FibsSuite:
    name = "fibs"
    title = "what a tool says"
    ports = ("fibs",)
    engines = ()
    params = ()
    presets = {"quick": Preset({}, samples=1, budget=5, timeout=60)}  # noqa: RUF012
    phases = (Phase("tool", "a tool says", "op", writes=False, reported=True),)
    layout = None
    charts = ()
    proof = None

    def workload(self, job: Job) -> Workload:
        return FibsWorkload(job)


class HarmfulSuite(FibsSuite):
    name = "harmful-suite"
    phases = (Phase("tool", HARM, "op", writes=False, reported=True),)


class Nothing(memory.Memory):
    pass


SUITE, HARMFUL_SUITE = FibsSuite(), HarmfulSuite()
FIBBER = EngineSpec(
    name="fibber",
    title="Test engine: a tool that says what can't be",
    opener=Nothing,
    ports={"fibs": PortSpec(partial)},
    tiers={},
    options=(Setting("report", choice(*REPORTS), "good", "what it reports"),),
)
