"""Expressions of pgbench's \\set: their syntax, and their values for one operation."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dyno.contracts.model import UsageError
from dyno.contracts.settings import closest_match, format_value
from dyno.suites.sql.language.functions import (
    FUNCTIONS,
    LEAST,
    MOST,
    RANDOM,
    SEEDED,
    Scalar,
    call,
    to_bool,
    to_scalar,
)

MOST_DEEP, MOST_CALLS = 100, 200
"""Limits of recursion: levels of nesting, and operators and functions in an expression."""

_TOKEN = re.compile(
    r"(?P<variable>:[^\W\d]\w*)|(?P<double>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|[0-9]+e[-+]?[0-9]+)|(?P<integer>[0-9]+)"
    r"|(?P<word>[^\W\d]\w*)|(?P<operator><<|>>|<=|>=|<>|!=|[-+*/%<>=|#&~(),])",
    re.IGNORECASE,
)
# Higher binds more strongly. NOT comes between AND and IS; unary + and - bind most strongly.
_PRECEDENCE = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("is", "isnull", "notnull"), 4),
    **dict.fromkeys(("<", ">", "=", "<=", ">=", "<>", "!="), 5),
    **dict.fromkeys(("|", "#", "&", "<<", ">>"), 6),
    **dict.fromkeys("+-", 7),
    **dict.fromkeys("*/%", 8),
}
_NOT = 3
_BITS = 6
_UNARY = 9
_NOT_CHAINED = (4, 5)
_KEYWORDS = {"or", "and", "not", "is", "isnull", "notnull", "case", "when", "then", "else", "end"}
_CONSTANTS: dict[str, Scalar] = {"NULL": None, "TRUE": True, "FALSE": False}


@dataclass(frozen=True)
class Constant:
    value: Scalar


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments. `site` counts the random functions of an expression."""

    function: str
    arguments: tuple["Constant | Variable | Call", ...]
    site: int = 0


Node = Constant | Variable | Call


@dataclass(frozen=True)
class Expression:
    """`context`: the script, line and command that the message of an error begins with."""

    node: Node
    context: str

    def evaluate(self, variables: Mapping[str, object]) -> Scalar:
        """Returns the value for one operation. Raises UsageError."""
        try:
            return _evaluate(self.node, variables)
        except ValueError as error:
            raise UsageError(f"{self.context}: {error}") from None

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(node.name for node in self.nodes() if isinstance(node, Variable))

    @property
    def draws(self) -> tuple[Call, ...]:
        """The calls of random functions."""
        return tuple(node for node in self.nodes() if isinstance(node, Call) and node.function in RANDOM)

    def nodes(self) -> Iterator[Node]:
        waiting = [self.node]
        while waiting:
            yield (node := waiting.pop())
            waiting += node.arguments if isinstance(node, Call) else ()


def _evaluate(node: Node, variables: Mapping[str, object]) -> Scalar:
    if isinstance(node, Variable):
        if node.name not in variables:
            raise ValueError(f"variable {node.name} is undefined: no \\gset has set it")
        return to_scalar(variables[node.name], node.name)
    if isinstance(node, Constant):
        return node.value
    if node.function in ("and", "or"):
        # Null comes first, and the second argument is evaluated only if it decides.
        first = _evaluate(node.arguments[0], variables)
        if first is None or to_bool(first) is (node.function == "or"):
            return first
        second = _evaluate(node.arguments[1], variables)
        if second is None:
            return None
        return to_bool(second)
    if node.function == "case":
        *branches, otherwise = node.arguments
        for condition, result in zip(branches[::2], branches[1::2], strict=True):
            if _evaluate(condition, variables):
                return _evaluate(result, variables)
        return _evaluate(otherwise, variables)
    return call(node.function, *[_evaluate(argument, variables) for argument in node.arguments])


# -- syntax -----------------------------------------------------------------------------------------------------


def parse_expression(text: str, context: str, resolve: Callable[[str], str]) -> Expression:
    """`resolve` returns the name to use for a variable, or raises ValueError. Raises UsageError."""
    try:
        expression = Expression(_Parser(text, resolve).parse(), context)
        if sum(isinstance(node, Call) for node in expression.nodes()) > MOST_CALLS:
            raise ValueError(f"the expression has more than {MOST_CALLS} operators and functions")
        return expression
    except ValueError as error:
        raise UsageError(f"{context}: {error}") from None


class _Parser:
    """Parser by operator precedence."""

    def __init__(self, text: str, resolve: Callable[[str], str]) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._resolve = resolve
        self._level = self._sites = 0

    def parse(self) -> Node:
        node = self._expression(0)
        if self._tokens[self._at][0]:
            raise self._unexpected_error()
        return node

    def _expression(self, least: int) -> Node:
        """Parses as long as operators bind at least as strongly as `least`."""
        self._level += 1
        if self._level > MOST_DEEP:
            raise ValueError(f"the expression is nested more than {MOST_DEEP} deep")
        node, chained = self._operand(), 0
        while (precedence := _PRECEDENCE.get(self._word(), -1)) >= least:
            if precedence == chained and precedence in _NOT_CHAINED:
                raise self._unexpected_error()
            node, chained = self._operation(node, precedence), precedence
        self._level -= 1
        return node

    def _operation(self, node: Node, precedence: int) -> Node:
        word = self._take_word()
        if word in ("isnull", "notnull"):
            return _negate_if(Call("is", (node, Constant(None))), word == "notnull")
        if word == "is":
            negated = self._accept("not")
            if self._word().upper() not in _CONSTANTS:
                raise self._unexpected_error("NULL, TRUE or FALSE")
            return _negate_if(Call("is", (node, Constant(_CONSTANTS[self._take_word().upper()]))), negated)
        other = self._expression(precedence + 1)
        if word in (">", ">="):
            return Call(word.replace(">", "<"), (other, node))
        return Call({"%": "mod", "!=": "<>"}.get(word, word), (node, other))

    def _operand(self) -> Node:
        at, (kind, text) = self._at, self._tokens[self._at]
        word = self._take_word()
        if kind == "variable":
            return Variable(self._resolve(text[1:]))
        if kind == "integer":
            return Constant(_literal(text))
        if kind == "double":
            if not math.isfinite(double := float(text)):
                raise ValueError(f"{format_value(text)} is too large for a double")
            return Constant(double)
        if word == "(":
            node = self._expression(0)
            self._expect(")")
            return node
        if word == "-":
            if self._tokens[self._at] == ("integer", str(2**63)):
                self._at += 1
                return Constant(LEAST)
            return Call("-", (Constant(0), self._expression(_UNARY)))
        if word == "+":
            return self._expression(_UNARY)
        if word == "~":
            return Call("#", (Constant(-1), self._expression(_BITS + 1)))
        if word == "not":
            return Call("not", (self._expression(_NOT),))
        if word.upper() in _CONSTANTS:
            return Constant(_CONSTANTS[word.upper()])
        if word == "case":
            return self._case()
        if kind == "word" and word not in _KEYWORDS:
            return self._call(text)
        self._at = at
        raise self._unexpected_error()

    def _case(self) -> Node:
        branches = list[Node]()
        self._expect("when")
        while True:
            branches.append(self._expression(0))
            self._expect("then")
            branches.append(self._expression(0))
            if not self._accept("when"):
                break
        if self._accept("else"):
            otherwise = self._expression(0)
        else:
            otherwise = Constant(None)
        self._expect("end")
        return Call("case", (*branches, otherwise))

    def _call(self, text: str) -> Node:
        name = text.lower()
        if self._word() != "(":
            raise ValueError(f"unexpected {format_value(text)}; a variable is written :name")
        if name == "debug":
            raise ValueError("debug() is not supported: it would print while operations are measured")
        if name not in FUNCTIONS:
            suggestion = closest_match(
                name, (one for one in FUNCTIONS if one.isidentifier() and one not in _KEYWORDS)
            )
            raise ValueError(f"{format_value(text)} is no function; {suggestion}")
        site = self._sites
        self._sites += name in RANDOM
        self._expect("(")
        arguments = list[Node]()
        if self._word() != ")":
            arguments.append(self._expression(0))
            while self._accept(","):
                arguments.append(self._expression(0))
        self._expect(")")
        least, most, _ = FUNCTIONS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            if most is None:
                count = f"at least {least}"
            elif least == most:
                count = str(least)
            else:
                count = f"{least} or {most}"
            plural = "arguments"
            if count.endswith("1"):
                plural = "argument"
            raise ValueError(f"{name}() takes {count} {plural}, got {len(arguments)}")
        if name == "pi":
            return Constant(math.pi)
        if name in SEEDED and len(arguments) < (most or 0):
            arguments.append(Variable(self._resolve("default_seed")))
        return Call(name, tuple(arguments), site)

    def _word(self) -> str:
        kind, text = self._tokens[self._at]
        if kind in ("word", "operator"):
            return text.lower()
        return ""

    def _take_word(self) -> str:
        word = self._word()
        # The last token is empty and is never passed.
        self._at += self._at < len(self._tokens) - 1
        return word

    def _accept(self, word: str) -> bool:
        """Skips a word if it is the next one."""
        if self._word() != word:
            return False
        self._take_word()
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._unexpected_error(word.upper())

    def _unexpected_error(self, instead: str = "") -> ValueError:
        kind, text = self._tokens[self._at]
        shown = "end of the expression"
        if kind:
            shown = format_value(text)
        return ValueError(f"expected {instead}, got {shown}" if instead else f"unexpected {shown}")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yields the kind and the text of each token, and an empty token at the end."""
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TOKEN.match(text, at)
        if not found:
            raise ValueError(f"unexpected {format_value(text[at])}")
        yield str(found.lastgroup), found.group()
        at = found.end()
    yield "", ""


def _literal(digits: str) -> int:
    digits = digits.lstrip("0") or "0"
    if len(digits) > 19 or int(digits) > MOST:
        raise ValueError(f"{format_value(digits)} has more than 64 bits")
    return int(digits)


def _negate_if(node: Node, negated: bool) -> Node:
    if negated:
        return Call("not", (node,))
    return node
