"""Roles of suites and of workloads: abilities that only some have, beyond the core in `dyno.contracts.suite`.

A suite or a workload inherits from the classes of its roles, and Dyno finds them by `isinstance`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from dyno.contracts.declarations import defer_import
from dyno.contracts.model import Fact, Phase, UsageError, Value
from dyno.contracts.settings import TEXT, Kind
from dyno.contracts.suite import Job, Suite, Workload

S = TypeVar("S", bound="DefinableSuite")
EngineEntry = str | Mapping[str, Any]
"""A requested engine: a text, or a table of `name` and options."""


# -- suites ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A variant of the user's definition. It makes a further row of each engine, with the option `model.VARIANT`."""

    options: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Further options of the row, by engine."""
    everywhere: bool = True
    """Whether engines without such options have the row, too."""


class DefinableSuite(Suite):
    """A suite that needs the user's definition: plain JSON, which the run file and the workers get."""

    defined_by: str = ""
    """Instruction to define its phases, for the message that it has none."""
    definition: Any = None
    """The definition, in the form that the workload gets; None until there is one."""
    variants: Mapping[str, Variant] = {}
    """Variants of the definition, by name."""
    on_user_server: bool = False
    """Whether it works on tables that are on the user's own server, so that each engine needs an address."""

    def define(self: S, definition: Mapping[str, object]) -> S:
        """Returns a copy of the suite with the definition. Raises UsageError."""
        defined = copy(self)
        defined.apply_definition(definition)
        return defined

    def apply_definition(self, definition: Mapping[str, object]) -> None:
        """Sets what follows from the definition, such as the phases and parameters. Raises UsageError."""
        self.definition = definition

    def workload(self, job: Job) -> Workload:
        """Returns the workload of a trial. The default calls `WORKLOAD(job, definition)` of the module `workload`."""
        given = () if self.definition is None else (self.definition,)
        workload: Workload = defer_import(f"{type(self).__module__}.workload:WORKLOAD")(job, *given)
        return workload


class FileDefinedSuite(DefinableSuite):
    """A suite that the user defines by a table of its name in a plan file."""

    @abstractmethod
    def inline_definition(self, definition: Mapping[str, object], base: Path) -> dict[str, object]:
        """Returns the definition as plain JSON that names no files but data files by absolute paths. `base`: the
        directory to which the names of files are relative. Raises UsageError."""


class RequestDefinedSuite(DefinableSuite):
    """A suite whose definition follows from the requested engines and parameters."""

    @abstractmethod
    def parse_entry(self, text: str) -> EngineEntry:
        """Returns a requested engine as a table of `name` and options, if the text is a short form, or else the
        text. Raises UsageError."""

    @abstractmethod
    def derive_definition(
        self, engines: Sequence[EngineEntry], params: Mapping[str, Sequence[object]], base: Path
    ) -> dict[str, object] | None:
        """Returns the definition for these engines and parameters. `base`: directory to which the names of files are
        relative. None: no definition is needed. Raises UsageError."""


def variants_of(suite: Suite) -> Mapping[str, Variant]:
    if isinstance(suite, DefinableSuite):
        return suite.variants
    return {}


def define_suite(suite: Suite, definition: Mapping[str, object]) -> Suite:
    """Returns the suite with an inlined definition. Raises UsageError."""
    if not isinstance(suite, DefinableSuite):
        raise UsageError(f"suite {suite.name} can't be defined")
    return suite.define(definition)


def inline_definition(suite: Suite, definition: Mapping[str, object], base: Path) -> dict[str, object]:
    """See `FileDefinedSuite.inline_definition`."""
    if not isinstance(suite, FileDefinedSuite):
        raise UsageError(f"suite {suite.name} can't be defined: leave the table {suite.name} out")
    return suite.inline_definition(definition, base)


@runtime_checkable
class NativeSuite(Protocol):
    """A suite some of whose phases native load can run. Its workloads are `NativeWorkload`s."""

    native_limits: str = ""
    """Why native load can't run some phases of a definition, for the message that it can't."""
    native_tls: bool = False
    """Whether native load can use encrypted connections, so that it may load servers of the user's."""

    def can_load_natively(self, phase: str, params: Mapping[str, Value]) -> bool:
        """Returns whether native load can run the phase of this name with these parameters."""


class RemoteSuite:
    """A suite whose clients can run on other machines. Its workloads are `RemoteWorkload`s."""


@dataclass(frozen=True)
class Flag:
    """A flag that a suite declares, from which the command line makes an option."""

    name: str
    """Key of its value."""
    words: Sequence[str]
    """As the user writes it: ('-q', '--query')."""
    help: str
    metavar: str = ""
    """Name of the value in the help. Empty: a switch."""
    kind: Kind = TEXT
    several: bool = False
    """Whether it may be repeated. The value then is a tuple."""
    least: int = 0
    most: int = 1_000_000
    """Range of a whole number."""
    constant: str | None = None
    """Value of a switch; None: True."""
    tries: Mapping[str, Value] | None = None
    """If not None, the flag shows the answers of one short run with these parameters, instead of measuring."""


class FlaggedSuite(DefinableSuite):
    """A suite with flags of its own for `dyno run`, which add to its definition."""

    flags: Sequence[Flag] = ()

    @abstractmethod
    def apply_flags(
        self, values: Mapping[str, object], definition: Mapping[str, object] | None, engines: Sequence[EngineEntry]
    ) -> Mapping[str, object]:
        """Returns the definition, with that of a plan file if there is one. `values`: those of the given flags, of
        which there is at least one, by name. Raises UsageError."""


@dataclass(frozen=True)
class ShortRequest:
    """The request that a command of its own stands for."""

    engines: Sequence[EngineEntry]
    params: Mapping[str, object]
    phases: Sequence[str]
    """Empty: the usual ones."""
    options: Mapping[str, Any]
    """Values of run options by name."""


@dataclass(frozen=True)
class ShortForm:
    """A command of its own, by which a suite is run without its name and without a plan file."""

    command: str
    """Its name after `dyno`."""
    help: str
    """Its help text, in click's notation."""
    argument: str
    """Name of its arguments in the help, of which there is at least one."""
    flags: Sequence[Flag]
    options: Sequence[str]
    """Names of the run options that it has, too."""


class ShortFormSuite(Suite):
    """A suite with a command of its own."""

    short_form: ShortForm

    @abstractmethod
    def expand_short_form(self, arguments: Sequence[str], values: Mapping[str, object]) -> ShortRequest:
        """Returns the request for the command's arguments. `values`: those of its flags and run options by name;
        None, False or () for one that is not given. Raises UsageError."""


# -- workloads ------------------------------------------------------------------------------------------------------


@runtime_checkable
class NativeWorkload(Protocol):
    """A workload some of whose phases native load can run."""

    def native_port(self, phase: Phase) -> Callable[[Any], Any] | None:
        """Returns a function that converts a port of `connect` to one for native load, with an `exchange` and
        operations of `dyno.contracts.native_load`. Returns None if the engine's library runs the phase."""


@runtime_checkable
class RemoteWorkload(Protocol):
    """A workload whose clients can run on other machines."""

    def describe_store(self) -> object:
        """Returns what clients on another machine must know of the store and its contents, as plain data."""

    def join_store(self, state: Any) -> None:
        """Makes this workload, on another machine, one of the store that the state describes. Nothing is created or
        loaded."""

    def learn_writes(self, before: Any, after: Any) -> None:
        """Notes what clients on another machine have written: their state before and after the phase."""


@runtime_checkable
class OpeningWorkload(Protocol):
    """A workload with a phase that measures the opening of the engine."""

    def opens(self, phase: Phase) -> bool:
        """Returns whether the phase measures the opening of the engine, which must then not be opened before."""


@runtime_checkable
class PayloadWorkload(Protocol):
    """A workload that stores data of a known size."""

    def payload_bytes(self, phase: Phase, items: int) -> int | None:
        """Returns the bytes that an application would have stored with this number of a phase's items; None if
        unknown."""


@runtime_checkable
class FilesWorkload(Protocol):
    """A workload that reads files of its own, beside those of the engine."""

    def files(self) -> Iterable[Path]:
        """Returns the suite's own files that a cold phase reads. They are evicted with the engine's files, but don't
        count towards the engine's size."""


@runtime_checkable
class PlacedWorkload(Protocol):
    """A workload whose data may be elsewhere than in the work directory."""

    def place(self) -> Path | None:
        """Returns a file or directory on the device whose traffic is measured. None: the device of the work
        directory."""


@runtime_checkable
class TrialFactsWorkload(Protocol):
    """A workload with facts of the whole trial."""

    def trial_facts(self) -> Mapping[str, Fact]:
        """Returns facts of the whole trial for the run file. Called after its phases."""
