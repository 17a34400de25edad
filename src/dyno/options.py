"""The run options: one row each.

Flags, keys of plan files, keyword arguments of `dyno.run`, the run file's header and docs/reference/run-options.md
follow from this table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from dyno.contracts.decoded_types import Amount, Count, Positive, Text
from dyno.contracts.limits import parse_all
from dyno.contracts.model import UsageError
from dyno.contracts.pace import ARRIVALS, LOADS, LOOPS, UNIFORM
from dyno.contracts.probe_time import LEAST_S, ProbeTimes
from dyno.contracts.settings import (
    COUNTS,
    ENGINES,
    NAMES,
    PARAMS,
    PERCENT,
    RATES,
    SIZE,
    SWITCH,
    TEXT,
    TIME,
    WHOLE,
    Kind,
    unknown_name_message,
)
from dyno.contracts.value_types import MOST

SEARCHED = ("rate", "samples", "until", "budget", "retries")
"""Options that a search for a capacity has no use for."""
LEAST_MEMORY = 50 << 20
"""Bytes of a trial: the interpreter alone needs about as much."""
MOST_SECONDS = 10**9
MOST_SAMPLES = 1_000_000
MOST_RETRIES = 1_000


@dataclass(frozen=True)
class Option:
    """One run option: a row of the table."""

    kind: Kind
    help: str
    """The line of `dyno run --help`."""
    docs: str
    """The description in docs/reference/run-options.md."""
    key: str = ""
    """Key of a plan file and long name of the flag; empty: `name`."""
    short: str = ""
    metavar: str | None = None
    least: float | None = None
    """In the unit of the field: seconds, bytes."""
    most: float = MOST
    choices: Sequence[str] = ()
    name: str = ""
    """Keyword argument and field of RunRequest."""

    @property
    def flag(self) -> str:
        return f"--{self.key}"

    def check(self, value: Any) -> None:
        """Raises UsageError if the value is out of range or not one of the choices."""
        if self.choices and value not in self.choices:
            raise UsageError(unknown_name_message(self.key, value, self.choices))
        if self.least is not None and not self.least <= value < math.inf:
            least = "50 MiB"
            if self.least != LEAST_MEMORY:
                least = f"{self.least:g}"
            raise UsageError(f"{self.key}: expected at least {least}, got {value:g}")
        if self.least is not None and value > self.most:
            raise UsageError(f"{self.key}: expected at most {self.most:,}, got {value:g}")


def option(kind: Kind, help: str, docs: str, default: Any = None, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(kind, help, docs, **more)})


@dataclass(frozen=True)
class RunRequest:
    """What a user requested, before it is resolved. None, or an empty list: not given."""

    suite: str
    engines: Sequence[str | Mapping[str, Any]] = option(
        ENGINES,
        "Engines to compare. To keep the address of your own server out of ps(1): url=env:NAME or url=file:PATH.",
        "Engines to compare: `NAME` or `NAME:OPTION=VALUE+OPTION=VALUE`, with `LABEL=` before it to give its rows "
        "[another name](plan-files.md#labels). Among the options, `tier=TIER` is "
        "[its own tier](plan-files.md#a-tier-for-each-engine). The flag may be repeated. In a plan file and in "
        "Python, an engine may also be a table of `name` and options, whose values may hold commas. "
        "[Passwords](servers.md#passwords) are best not given here. Default: every engine of the suite that is "
        "installed, needs no server, gives the requested tier and serves the requested number of clients",
        (),
        key="engine",
        short="-e",
        metavar="[LABEL=]ENGINE[:OPT=VAL[+OPT=VAL]][,...]",
    )
    _: KW_ONLY
    params: Mapping[str, Any] = option(
        PARAMS,
        "Values of a parameter.",
        "Values of a parameter of the suite: `NAME=VALUE`, or several separated by commas. Each combination of all "
        "values is measured. The flag may be repeated. A parameter that none of the measured phases uses is an error",
        key="param",
        short="-p",
        metavar="NAME=V1[,V2...]",
    )
    samples: int | None = option(
        WHOLE,
        "Trials of every row.",
        "Trials of every cell, 1 to 1,000,000; with `until` at least that many. Default: the preset's",
        least=1,
        most=MOST_SAMPLES,
    )
    until: str | float | None = option(
        PERCENT,
        "Add samples until each comparison is decided (the default), or each 95 % interval reaches no further from "
        "its median, such as 5%.",
        "`decided`: samples are added until each comparison that a report states is decided; rows in no open "
        "comparison take no further trial. A percentage such as `5%`: samples are added until the 95 % interval of "
        "each row reaches no further from its median. In Python, a number is a share: 0.05. Default: the preset's, "
        "which most often is `decided`, unless the number of samples or the time of a phase is given. See "
        "[statistics and verdicts](../explanations/statistics.md#until-it-is-decided)",
        metavar="decided|PERCENT",
    )
    within: float | None = option(
        TIME,
        "Maximum time of the run: no sample is begun that would end later. Default: the preset's, or 1800.",
        "No sample is begun that would probably end after this time. `--resume` continues for as long again. Without "
        "`until`, that is `decided`. Default: the preset's, or 1800. With a limit: time of all searches, shared "
        "alike; probes are shortened. 1800 each",
        least=1,
        most=MOST_SECONDS,
    )
    preset: str | None = option(
        TEXT,
        "Named size: quick (the default), standard or full.",
        "Named size: values of parameters, the number of samples, the budget and the timeout. It may also name "
        "phases, used unless phases are given, and a width of intervals, used unless samples or times are given. "
        "Default: quick",
        metavar="NAME",
    )
    tier: str | None = option(
        TEXT,
        "Durability of all engines: volatile, process or power. Default: each engine's own.",
        "Durability of all engines: volatile, process or power. An engine with a tier of its own keeps it. A named "
        "engine that can't give the tier is an error. Default: each engine's own",
        metavar="TIER",
    )
    clients: int | str | Sequence[int | str] = option(
        COUNTS,
        "Clients at work at the same time.",
        "Clients at work at the same time, or several numbers. `cpus` is the number of CPUs that Dyno may run on; "
        "`2cpus`, `1.5cpus` and `cpus/2` are relative to it. Default: 1",
        (),
        metavar="N[,N...]",
    )
    rate: float | str | Sequence[float | str] = option(
        RATES,
        "Operations per second that are due, of all clients together: an open loop. max: a closed loop.",
        "An open loop: operations per second that are due, of all clients together, 10^-6 to 10^9, or several rates. "
        "`max` is the closed loop, in which each operation follows the one before. Default: max. See "
        "[what is timed](../explanations/what-is-timed.md#closed-loop-and-open-loop)",
        (),
        metavar="R[,R...]",
    )
    arrivals: str | None = option(
        TEXT,
        "Arrivals of an open loop: uniform (the default) or poisson.",
        "How the operations of an open loop are spread over time: uniform, in even steps, or poisson, at random. "
        "Default: uniform",
        metavar="KIND",
        choices=ARRIVALS,
    )
    limit: Sequence[str] = option(
        NAMES,
        "Search the highest rate at which this limit holds: p99<5ms, errors<0.1%.",
        "Search the highest rate at which this limit holds, in place of a rate: `p99<5ms` (of the operations due, at "
        "most 1 % fail, never start, or are answered later than 5 ms after they were due) or `errors<0.1%`. The flag "
        "may be repeated; all limits hold together. See [capacity](../explanations/what-is-timed.md#capacity)",
        (),
        short="-l",
        metavar="LIMIT",
    )
    confirm: float | None = option(
        TIME,
        "With a limit: duration of the last probe. Default: 60.",
        "With a limit: duration of the last probe, at the lower end of the capacity's interval; long enough to see "
        "what an engine does now and then, such as checkpoints. Default: 60",
        least=0.01,
        most=MOST_SECONDS,
    )
    phases: Sequence[str] = option(
        NAMES,
        "Measure only these phases.",
        "Only these phases, by name or by [alias](suites/records.md#phases); `all`: each. They run in the suite's "
        "order. Default: the preset's, or each",
        (),
        metavar="NAME[,NAME...]",
    )
    seed: int | None = option(
        WHOLE,
        "Seed of the data and of the order of trials. Default: 1.",
        "Seed of the data, of the order of trials and of random arrivals. Default: 1",
        least=0,
    )
    budget: float | None = option(
        TIME,
        "Maximum measuring time per phase.",
        "Maximum measuring time of a phase of a trial. Default: the preset's",
        least=0.01,
        most=MOST_SECONDS,
    )
    duration: float | None = option(
        TIME,
        "Fixed measuring time per phase: repeat rounds until it elapses (overrides the budget).",
        "Fixed measuring time of a phase, in as many rounds as it takes (overrides the budget; the two exclude each "
        "other). Work that can be done only once (an insert, a delete) ends when it is done",
        least=0.01,
        most=MOST_SECONDS,
    )
    warmup: float | None = option(
        TIME,
        "Unrecorded work before each phase.",
        "Unrecorded work before each phase. Cold phases have none, and neither has work that can be done only once. "
        "Default: 0",
        least=0,
        most=MOST_SECONDS,
    )
    loop: str | None = option(
        TEXT,
        "Measuring loop: native, python, or auto (the default).",
        "Measuring loop: native, python, or auto, which is the native loop if it was built. Native is an error if it "
        "was not built. Default: auto",
        metavar="NAME",
        choices=LOOPS,
    )
    load: str | None = option(
        TEXT,
        "What loads servers: library, each engine's client library; native, Dyno's own client; or auto (default).",
        "What loads servers: `library`, each engine's client library; `native`, [Dyno's own "
        "client](../explanations/what-is-timed.md#native-load), which is the option `client=native` of the "
        "engines; or `auto`: native load if the run has several clients and every server engine can be loaded "
        "natively, else the library. Engines that are named with a `client` keep it. Default: auto",
        metavar="NAME",
        choices=LOADS,
    )
    load_from: str | None = option(
        TEXT,
        "Run the clients on the machines of this scheduler of Dask, tls://HOST:PORT.",
        "Run the clients of servers on the workers of this scheduler of Dask, one on each machine: "
        "`tls://HOST:PORT`. See [load from other machines](load-from.md). Default: on this machine",
        key="load-from",
        metavar="SCHEDULER",
    )
    plain_tcp: bool | None = option(
        SWITCH,
        "Accept a scheduler without TLS, tcp://HOST:PORT: whoever reaches it can run code on its machines.",
        "Accept a scheduler without TLS, `tcp://HOST:PORT`: whoever reaches it can run code on its machines",
        key="plain-tcp",
    )
    timeout: float | None = option(
        TIME,
        "Maximum time of a trial; then it is killed.",
        "Maximum time of a trial; then it is killed. Checks of answers don't count: half as long between the "
        "operations of a phase, which then ends with what is done and checked, and as long again for the check of "
        "the store after a phase. Default: the preset's, or, if more, three times `duration` and `warmup` of all "
        "phases and a minute; longer for servers that are slow to start",
        least=1,
        most=MOST_SECONDS,
    )
    memory: int | None = option(
        SIZE,
        "Maximum memory of a trial; then it is killed.",
        "Maximum memory of a trial; then it is killed. Default: three quarters of what is available when the run "
        "begins",
        least=LEAST_MEMORY,
    )
    confine: int | None = option(
        SIZE,
        "Confine each trial to this much memory, page cache included, by a control group.",
        "Confine each trial, with its server and clients, to this much memory, page cache included, by a "
        "[control group](../explanations/cold.md#confined-memory): for data larger than the memory. "
        "Default: not confined",
        least=LEAST_MEMORY,
    )
    awake: bool | None = option(
        SWITCH,
        "Keep all cores awake, so that no figure includes the cost of waking them up. Default: cores may sleep.",
        "Keep all cores awake during the run, so that no figure includes the cost of [waking them "
        "up](../explanations/what-is-timed.md#waking-up). `--no-awake` overrides a plan file. Linux "
        "only. Default: cores may sleep",
    )
    profile: bool | None = option(
        SWITCH,
        "Profile further trials of each row after the last block: where its CPU time goes (by perf), and its system "
        "calls (by strace).",
        "Profile further trials of each row after the last block, whose times are in no figure: [where its CPU time "
        "goes](../explanations/why.md#the-profiled-trial), by library and function, and its system calls. Needs "
        "`perf`, and `strace` for the calls. `--resume` adds them to a run without. Default: no profiles",
    )
    retries: int | None = option(
        WHOLE,
        "Further attempts at a trial that died. Default: 1.",
        "Further attempts at a trial that crashed, timed out, ran out of memory or ended with an error, 0 to 1,000. "
        "Default: 1",
        least=0,
        most=MOST_RETRIES,
    )
    definition: Mapping[str, Any] | None = None
    """Defines the suite, such as the user's own SQL: the table of a plan file that is named like its suite."""
    base: Path = Path()
    """Directory to which names of files in `definition` are relative."""

    def __post_init__(self) -> None:
        """Makes lists of what may be given as a single value."""
        for each in OPTIONS:
            value = getattr(self, each.name)
            if each.kind.several:
                object.__setattr__(self, each.name, as_list(value))
            elif each.kind is PARAMS:
                object.__setattr__(self, each.name, {name: as_list(values) for name, values in (value or {}).items()})

    def check(self) -> None:
        """Raises UsageError for a value out of its range and for options that exclude each other."""
        for each in OPTIONS:
            value = getattr(self, each.name)
            if value is not None:
                each.check(value)
        if self.budget is not None and self.duration is not None:
            raise UsageError("budget (the maximum) and duration (fixed) of a phase exclude each other")
        if self.limit:
            try:
                parse_all(self.limit)
            except ValueError as error:
                raise UsageError(f"limit: {error}") from None
            both = [name for name in (*SEARCHED, "profile") if getattr(self, name) not in (None, [], False)]
            if both:
                raise UsageError(f"limit and {both[0]} exclude each other: a search chooses its rates and its probes")
        elif self.profile and self.load_from is not None:
            raise UsageError("profile and load-from exclude each other: the clients run on other machines")
        elif self.confirm is not None:
            raise UsageError("confirm is the last probe's duration in a search: give a limit, such as p99<5ms, too")


OPTIONS: tuple[Option, ...] = tuple(
    replace(row, name=each.name, key=row.key or each.name)
    for each in fields(RunRequest)
    if isinstance(row := each.metadata.get("option"), Option)
)


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The options as resolved: what was requested, else what the preset has, else the default.

    `plan` in the run file's header has these fields, held to these types.
    """

    samples: Positive
    """Trials of every cell, which is the number of blocks; with `until` the least number of them."""
    seed: Count
    budget: Amount
    """Maximum seconds that a phase of a trial measures."""
    timeout: Amount
    """Maximum seconds of a trial."""
    memory: Count | None = None
    """Maximum bytes of a trial; null: three quarters of what was available."""
    retries: Count = 1
    duration: Amount | None = None
    """Seconds that a phase of a trial measures; null: the budget holds."""
    warmup: Amount = 0.0
    """Seconds of unrecorded work before each phase."""
    arrivals: Text = UNIFORM
    loop: Text = "auto"
    """The requested loop: `auto`, `native` or `python`."""
    until: Annotated[float, Meta(gt=0, le=1)] | Literal["decided"] | None = None
    """Blocks are added until no interval reaches further than this share of its median, or until every comparison of
    the answers is `decided`; null: `samples` blocks."""
    within: Amount | None = None
    """Seconds after which no block is begun; of searches, their bound; else null without `until`."""
    least: Count = 1
    """Blocks that are done however long they take; left out if 1."""
    confine: Count | None = None
    """Bytes that each trial was confined to, page cache included; null: not confined. Earlier files lack it."""
    limit: list[Text] = field(default_factory=list)
    """Limits of a search for a capacity; left out if there are none."""
    confirm: Amount = 60.0
    """Seconds of a search's last probe; left out without a limit."""
    load_from: Text | None = None
    """Address of the scheduler of Dask on whose machines the clients ran; left out if they ran on this machine."""
    plain_tcp: bool = False
    """Whether a scheduler without TLS was accepted; left out if not."""
    awake: bool = False
    """Whether all cores were kept awake, from the first trial to the last. Earlier files lack it: cores slept."""
    profile: bool = False
    """Whether each row was to be profiled after the last block; left out if not."""

    @property
    def until_text(self) -> str | None:
        """`until` as requested: 'decided' or '5%'."""
        if self.until is None or isinstance(self.until, str):
            return self.until
        return f"{self.until * 100:g}%"

    def probe_times(self, cells: int) -> ProbeTimes:
        """Returns the durations of a search, for each of `cells` searches. Plans of 0.1.0 have no bound."""
        bounded = self.within is not None and self.until is None
        return ProbeTimes(
            warmup=self.warmup,
            least=self.duration or LEAST_S,
            last=self.confirm,
            bound=self.within / cells if self.within is not None and bounded else math.inf,
            timeout=self.timeout if bounded else math.inf,
        )


def requested_options(request: RunRequest) -> dict[str, object]:
    """The options of a plan that the user gave, by name."""
    values = {each.name: getattr(request, each.name, None) for each in fields(PlanOptions)}
    return {name: value for name, value in values.items() if value is not None}


def as_list(value: Any) -> list[Any]:
    """A list of the values; of a single value, a list of one."""
    single = isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
    if single:
        return [value]
    return list(value)
