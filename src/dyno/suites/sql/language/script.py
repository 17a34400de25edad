"""Scripts of the suite `sql`: a subset of pgbench's language, and the inputs of its operations."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from dyno.contracts.model import UsageError
from dyno.contracts.settings import closest_match, format_value
from dyno.suites.sql.language.expressions import Expression, Variable, parse_expression
from dyno.suites.sql.language.functions import to_scalar
from dyno.suites.sql.language.statements import Lexed, Unreadable, read_statement

if TYPE_CHECKING:
    import numpy as np

BATCH = 1_000
"""Operations whose inputs are made at once."""
OF_OPERATION = ("n", "client_id")
"""Variables that each operation has: a number that no other operation of the phase has, and the client's number."""

_COMMAND = re.compile(r"\\((?:\\\n|[^\n])*)")
_NAME = re.compile(r"[^\W\d]\w*")

_ONE_BY_ONE = "a script's statements are executed one by one"
_SAME = "every operation executes the same statements; use CASE in \\set, or a mix of scripts"
UNSUPPORTED = {
    "aset": f"{_ONE_BY_ONE}; use \\gset",
    **dict.fromkeys(("if", "elif", "else", "endif"), _SAME),
    "sleep": "a pause is no work; --rate spaces operations",
    **dict.fromkeys(("shell", "setshell"), "a script starts no programs"),
    **dict.fromkeys(("startpipeline", "syncpipeline", "endpipeline"), _ONE_BY_ONE),
    ";": _ONE_BY_ONE,
    ":": "write a space after a colon that is no parameter",
}
"""pgbench's commands that scripts can't use, with the reason."""


@dataclass(frozen=True)
class Set:
    """\\set NAME EXPRESSION. If `late`, it depends on a variable of \\gset and is evaluated in the transaction."""

    name: str
    expression: Expression
    late: bool


@dataclass(frozen=True)
class Statement:
    """An SQL statement, with parameters for variables."""

    pieces: tuple[str, ...]
    """Text before, between and after the parameters: one more than there are names."""
    names: tuple[str, ...]
    """The variables to bind. A variable's name is `x:2` for its second value if \\set x is repeated."""
    gset: str | None
    """The prefix of \\gset, '' without a prefix. None: no \\gset."""
    keyword: str
    """First word, in capitals."""
    line: int
    writes: bool
    """Whether it may change data, or permit later statements to do so."""


@dataclass(frozen=True)
class Script:
    steps: tuple[Set | Statement, ...]
    inputs: tuple[str, ...]
    """The variables to give for each operation: those of statements and late sets that no \\gset sets."""
    where: str = ""
    given: tuple[str, ...] = ()
    """The variables from outside that the script uses."""

    @property
    def statements(self) -> tuple[Statement, ...]:
        return tuple(step for step in self.steps if isinstance(step, Statement))

    @property
    def writes(self) -> bool:
        return any(statement.writes for statement in self.statements)


def parse(text: str, where: str, given: Collection[str] | None = ()) -> Script:
    """Reads a script. `given`: names of the variables from outside; None: all that the script does not set. Raises
    UsageError, which begins with `where`."""
    return _Parser(text.replace("\r\n", "\n"), where, given).parse()


class _Parser:
    """Reads steps and follows which value a variable has.

    A second \\set of a variable defines a new name, so that both values can be inputs. Where \\gset may set the
    variable, a late \\set copies the value to the original name before, so that this name has the latest value.
    """

    def __init__(self, text: str, where: str, given: Collection[str] | None) -> None:
        self._text = text
        self._where = where
        self._at = 0
        self._steps = list[Set | Statement]()
        self._any, self._given = given is None, dict[str, None]()
        self._current = {name: name for name in (OF_OPERATION if given is None else given)}
        self._outside = set(self._current)
        self._initial = set(self._current)
        self._late = set[str]()
        self._gsets = list[tuple[str, Lexed]]()
        self._inputs, self._versions = dict[str, None](), dict[str, int]()
        self._lexed = Lexed()

    def parse(self) -> Script:
        while self._at < len(self._text):
            self._statement()
            if self._text.startswith("\\", self._at):
                self._command()
        if not any(isinstance(step, Statement) for step in self._steps):
            raise UsageError(f"{self._where}: the script has no statement")
        return Script(tuple(self._steps), tuple(self._inputs), self._where, tuple(self._given))

    def _error(self, message: str, at: int) -> UsageError:
        return UsageError(f"{self._where}, line {self._line(at)}: {message}")

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    def _statement(self) -> None:
        try:
            lexed, end = read_statement(self._text, self._at, self._resolve)
        except Unreadable as error:
            raise self._error(str(error), error.at) from None
        if lexed.words:
            for name in lexed.names:
                self._use(name)
            pieces, names = tuple(lexed.pieces), tuple(lexed.names)
            line = self._line(lexed.at)
            keyword = lexed.words[0]
            if keyword == "END":
                # pgbench's scripts end with it, but not all engines have it.
                keyword, pieces = "COMMIT", ("COMMIT",)
            self._steps.append(Statement(pieces, names, None, keyword, line, lexed.writes()))
            self._lexed = lexed
        elif lexed.at >= 0:
            raise self._error("expected an SQL statement", lexed.at)
        self._at = end

    # -- commands ---------------------------------------------------------------------------------------------

    def _command(self) -> None:
        start = self._at
        found = _COMMAND.match(self._text, start)
        assert found, "it begins with a backslash"
        name, rest = _split_first_word(found.group(1).replace("\\\n", " "))
        command = name.lower()
        if command == "set":
            self._set(*_split_first_word(rest), start)
        elif command == "gset":
            self._gset(rest.strip(), start)
        elif (known := command if command in UNSUPPORTED else command[:1]) in UNSUPPORTED:
            raise self._error(f"\\{known} is not supported: {UNSUPPORTED[known]}", start)
        else:
            raise self._error(f"\\{format_value(name)} is no command; there are \\set and \\gset", start)
        self._at = found.end()

    def _set(self, name: str, text: str, at: int) -> None:
        if not text.strip() or not _NAME.fullmatch(name):
            raise self._error(
                f"expected \\set NAME EXPRESSION, got \\set {format_value(f'{name} {text}'.strip())}", at
            )
        context = f"{self._where}, line {self._line(at)}: \\set {format_value(name)}"
        expression = parse_expression(text, context, self._resolve)
        late = not self._late.isdisjoint(expression.variables)
        if late:
            if expression.draws:
                reason = "random numbers must be the same for all engines, and can't depend on a variable of \\gset"
                raise UsageError(f"{context}: {reason}; move the function to a \\set of its own")
            for variable in sorted(expression.variables):
                self._use(variable)
            self._initial.discard(name)
            self._late.add(name)
            self._current[name] = target = name
        else:
            target = name
            if name in self._current or any(_may_set(prefix, lexed, name) for prefix, lexed in self._gsets):
                self._versions[name] = self._versions.get(name, 1) + 1
                target = f"{name}:{self._versions[name]}"
            self._initial.add(target)
            self._current[name] = target
        self._steps.append(Set(target, expression, late))

    def _gset(self, prefix: str, at: int) -> None:
        last = self._steps[-1] if self._steps else None
        if not isinstance(last, Statement) or last.gset is not None:
            raise self._error("\\gset must follow an SQL statement", at)
        if prefix and not _NAME.fullmatch(prefix):
            raise self._error(f"expected \\gset PREFIX, got \\gset {format_value(prefix)}", at)
        copies = list[Set | Statement]()
        for name, current in self._current.items():
            if _may_set(prefix, self._lexed, name):
                if current != name:
                    context = f"{self._where}, line {self._line(at)}: \\gset"
                    copies.append(Set(name, Expression(Variable(current), context), True))
                    self._use(current)
                    self._initial.discard(name)
                    self._current[name] = name
                self._late.add(name)
        self._steps[-1:] = [*copies, replace(last, gset=prefix)]
        self._gsets.append((prefix, self._lexed))

    # -- variables --------------------------------------------------------------------------------------------

    def _resolve(self, name: str) -> str:
        """Returns the name of a variable's current value. Raises ValueError if it has none."""
        if self._any and name not in self._current and not any(_may_set(*each, name) for each in self._gsets):
            self._current[name] = name
            self._initial.add(name)
            self._outside.add(name)
        if name in self._outside and self._current.get(name) == name:
            self._given[name] = None
        if name not in self._current:
            if not any(name.startswith(prefix) for prefix, _ in self._gsets):
                nearest = "use \\set to define it"
                if self._current:
                    nearest = closest_match(name, self._current)
                raise ValueError(f"variable {format_value(name)} is undefined; {nearest}")
            self._current[name] = name
            self._late.add(name)
        return self._current[name]

    def _use(self, name: str) -> None:
        """Adds a variable to the inputs, unless a step of the transaction sets it."""
        if name in self._initial:
            self._inputs[name] = None


def _may_set(prefix: str, lexed: Lexed, name: str) -> bool:
    """Returns whether \\gset with this prefix may set the variable."""
    return name.startswith(prefix) and lexed.may_return(name[len(prefix) :])


def _split_first_word(text: str) -> tuple[str, str]:
    word, rest = [*text.split(None, 1), "", ""][:2]
    return word, rest


# -- inputs -----------------------------------------------------------------------------------------------------


class Inputs:
    """Values of a script's inputs: a pure function of the seed and the operation's number."""

    def __init__(self, script: Script, seed: Sequence[int], given: Mapping[str, object]) -> None:
        """`given`: values of the variables from outside. A callable draws them: it is called with a generator and a
        count, and returns a sequence."""
        self._script = script
        self._seed = tuple(seed)
        self._given = given
        sets = [step for step in script.steps if isinstance(step, Set) and not step.late]
        needed = set(script.inputs)
        for step in reversed(sets):
            if step.name in needed:
                needed |= step.expression.variables
        self._sets = [step for step in sets if step.name in needed]
        calculated = set().union(*(step.expression.variables for step in self._sets))
        self._outside = {name: name in calculated for name in sorted(needed - {step.name for step in sets})}
        for name in self._outside:
            if name not in given:
                raise UsageError(f"{script.where}: variable {name} has no value; give one with -p {name}=...")

    def batch(self, number: int) -> list[tuple[object, ...]]:
        """Returns the inputs of the operations from `number` * BATCH on, in the order of `script.inputs`."""
        from dyno.suites.sql import vectors

        columns, arrays = dict[str, list[object]](), dict[str, vectors.Array]()
        for name, is_calculated in self._outside.items():
            values = self._values(name, number)
            columns[name] = values * (BATCH // len(values))
            if is_calculated:
                try:
                    scalars = vectors.array([to_scalar(value, name) for value in values])
                except ValueError as error:
                    raise UsageError(f"{self._script.where}: {error}") from None
                arrays[name] = scalars.repeat(BATCH // len(values))
        for step in self._sets:
            generators = partial(self._generator, number, step.name)
            arrays[step.name] = vectors.evaluate(step.expression, arrays, BATCH, generators)
        each = [columns[name] if name in columns else arrays[name].tolist() for name in self._script.inputs]
        if each:
            return list(zip(*each, strict=True))
        return [()] * BATCH

    def _values(self, name: str, number: int) -> list[object]:
        """Returns a given variable's value, or its drawn values for the batch."""
        value = self._given[name]
        if not callable(value):
            return [value]
        drawn = value(self._generator(number, name, 0), BATCH)
        return drawn.tolist() if hasattr(drawn, "tolist") else list(drawn)

    def _generator(self, number: int, name: str, site: int) -> "np.random.Generator":
        """Returns the generator of one call of a random function, or of a given variable, for one batch.

        Philox (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011) counts from any position.
        """
        import numpy as np

        key = np.random.SeedSequence([*self._seed, site, *name.encode()]).generate_state(2, np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, number, 0]))
