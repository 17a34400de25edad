"""Values of expressions for many operations at once, in arrays of NumPy.

An array of integers, doubles or booleans has values of one type. Other values are in an array of objects. An array
function returns None if it can't handle its arguments or some result is out of range. Then the function of
`dyno.suites.sql.language.functions` is called for each operation, and raises the error if there is one.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dyno.contracts.model import UsageError
from dyno.suites._shared.zipf import zipf_candidates
from dyno.suites.sql.language.expressions import Call, Constant, Expression, Node, Variable
from dyno.suites.sql.language.functions import (
    FNV_BASIS,
    FNV_PRIME,
    LEAST,
    MOST,
    MURMUR,
    RANDOM,
    Scalar,
    call,
    permutation,
    to_bool,
    to_double,
    to_int,
)

Array = NDArray[Any]
Generators = Callable[[int], np.random.Generator]
_BELOW_2_63 = 2.0**63 - 1_024
"""The largest double that is a 64-bit integer."""
_LEAST_GAUSSIAN, _ZIPFIAN = 2.0, (1.001, 1_000.0)


def evaluate(expression: Expression, columns: Mapping[str, Array], count: int, generators: Generators) -> Array:
    """Returns the values for `count` operations. `columns`: the variables' values. `generators` returns the generator
    of each call of a random function. Raises UsageError."""
    try:
        return _Evaluation(columns, generators).evaluate_node(expression.node, np.arange(count))
    except ValueError as error:
        raise UsageError(f"{expression.context}: {error}") from None


def array(values: Sequence[Scalar]) -> Array:
    types = set(map(type, values))
    if len(types) == 1 and (dtype := {int: np.int64, float: np.float64, bool: np.bool_}.get(types.pop())):
        return np.array(values, dtype)
    result = np.empty(len(values), object)
    result[:] = values
    return result


class _Evaluation:
    def __init__(self, columns: Mapping[str, Array], generators: Generators) -> None:
        self._columns, self._generators = columns, generators

    def evaluate_node(self, node: Node, rows: NDArray[np.intp]) -> Array:
        """Returns the values for some operations, of which there is at least one."""
        if isinstance(node, Constant):
            return np.full(len(rows), node.value, {int: np.int64, type(None): object}.get(type(node.value)))
        if isinstance(node, Variable):
            return self._columns[node.name][rows]
        if node.function == "case":
            return self._case(node, rows)
        if node.function in ("and", "or"):
            return self._logic(node, rows)
        arguments = [self.evaluate_node(argument, rows) for argument in node.arguments]
        if node.function in RANDOM:
            return _random(node.function, arguments, self._generators(node.site))
        if node.function in _ARRAY_FUNCTIONS and not any(argument.dtype.hasobject for argument in arguments):
            result = _ARRAY_FUNCTIONS[node.function](*arguments)
            if result is not None:
                return result
        each = zip(*(argument.tolist() for argument in arguments), strict=True)
        return array([call(node.function, *values) for values in each])

    def _case(self, node: Call, rows: NDArray[np.intp]) -> Array:
        """Evaluates each condition and each result only for the operations that reach it."""
        left, parts = np.arange(len(rows)), list[tuple[Array, Array]]()
        *branches, otherwise = node.arguments
        for condition, result in zip(branches[::2], branches[1::2], strict=True):
            if len(left):
                truth = self.evaluate_node(condition, rows[left]).astype(bool)
                if truth.any():
                    parts.append((left[truth], self.evaluate_node(result, rows[left[truth]])))
                left = left[~truth]
        if len(left):
            parts.append((left, self.evaluate_node(otherwise, rows[left])))
        return _join_parts(parts, len(rows))

    def _logic(self, node: Call, rows: NDArray[np.intp]) -> Array:
        """Evaluates the second argument only for the operations where it decides."""
        first = self.evaluate_node(node.arguments[0], rows)
        decided = np.array([value is None or to_bool(value) is (node.function == "or") for value in first.tolist()])
        parts = [(np.flatnonzero(decided), first[decided])]
        if not decided.all():
            second = self.evaluate_node(node.arguments[1], rows[~decided])
            checked = [value if value is None else to_bool(value) for value in second.tolist()]
            parts.append((np.flatnonzero(~decided), array(checked)))
        return _join_parts(parts, len(rows))


def _join_parts(parts: Sequence[tuple[Array, Array]], count: int) -> Array:
    """Puts values to their positions."""
    types = {values.dtype for _, values in parts if len(values)}
    result = np.empty(count, types.pop() if len(types) == 1 else object)
    for positions, values in parts:
        result[positions] = values
    if result.dtype.hasobject:
        return array(result.tolist())
    return result


# -- random functions -------------------------------------------------------------------------------------------


def _random(function: str, arguments: Sequence[Array], generator: np.random.Generator) -> Array:
    """Draws integers from the first to the second argument, both included; null if an argument is null."""
    if any(argument.dtype.hasobject for argument in arguments):
        known = np.array([None not in values for values in zip(*arguments, strict=True)])
        if not known.all():
            parts = [(np.flatnonzero(~known), np.full(np.count_nonzero(~known), None, object))]
            if known.any():
                drawn = _random(function, [argument[known] for argument in arguments], generator)
                parts.append((np.flatnonzero(known), drawn))
            return _join_parts(parts, len(known))
    low, high = _integers(arguments[0]), _integers(arguments[1])
    if (low > high).any():
        row = int(np.argmax(low > high))
        raise ValueError(f"{function}({low[row]}, {high[row]}) has an empty range")
    width = high - low
    if ((width < 0) | (width == MOST)).any():
        raise ValueError(f"the range of {function}() has more than 2^63 - 1 numbers")
    if function == "random":
        return generator.integers(low, high, endpoint=True)
    parameter, count = _doubles(arguments[2]), width + 1
    draw = {"random_exponential": _exponential, "random_gaussian": _gaussian, "random_zipfian": _zipfian}[function]
    result: Array = low + np.minimum(draw(count, parameter, generator), width)
    return result


def _exponential(count: Array, parameter: Array, generator: np.random.Generator) -> Array:
    """Number i has the probability f(i) - f(i + 1) with f(x) = exp(-parameter * x / count), divided by their sum."""
    _check(parameter, parameter > 0, "random_exponential() takes a parameter greater than 0")
    uniform = generator.random(len(count))
    # The inverse for a uniform number. With log and exp instead, a parameter near 0 would lose all digits.
    share = -np.log1p(np.expm1(-parameter) * uniform) / parameter
    return _scale_counts(count, share)


def _gaussian(count: Array, parameter: Array, generator: np.random.Generator) -> Array:
    """A normal variable, drawn again if it isn't within `parameter` standard deviations, is scaled to the range."""
    _check(parameter, parameter >= _LEAST_GAUSSIAN, f"random_gaussian() takes a parameter from {_LEAST_GAUSSIAN} on")
    normal = generator.standard_normal(len(count))
    while len(outside := np.flatnonzero((normal < -parameter) | (normal >= parameter))):
        normal[outside] = generator.standard_normal(len(outside))
    return _scale_counts(count, (normal / parameter + 1) / 2)


def _zipfian(count: Array, parameter: Array, generator: np.random.Generator) -> Array:
    """Number i has a probability proportional to 1 / (i + 1) ** parameter."""
    least, most = _ZIPFIAN
    within = (parameter >= least) & (parameter <= most)
    _check(parameter, within, f"random_zipfian() takes a parameter from {least} to {most:.0f}")
    limit = np.minimum(count.astype(np.float64), _BELOW_2_63)
    result, waiting = np.empty(len(count), np.int64), np.arange(len(count))
    while len(waiting):
        ranks, accepted = zipf_candidates(limit[waiting], parameter[waiting], generator.random(len(waiting)))
        result[waiting[accepted]] = ranks[accepted]
        waiting = waiting[~accepted]
    return result


def _check(parameter: Array, valid: NDArray[np.bool_], rule: str) -> None:
    if not valid.all():
        raise ValueError(f"{rule}, got {parameter[np.argmin(valid)]}")


def _scale_counts(count: Array, share: Array) -> Array:
    scaled: Array = np.minimum(count * share, _BELOW_2_63).astype(np.int64)
    return scaled


# -- other functions --------------------------------------------------------------------------------------------


def _integers(values: Array) -> Array:
    if values.dtype == np.int64:
        return values
    if values.dtype == np.float64:
        rounded = np.rint(values)
        if (rounded >= LEAST).all() and (rounded <= _BELOW_2_63).all():
            return rounded.astype(np.int64)
    return np.array([to_int(value) for value in values.tolist()], np.int64)


def _doubles(values: Array) -> Array:
    if values.dtype.kind in "if":
        return values.astype(np.float64)
    return np.array([to_double(value) for value in values.tolist()])


def _largest(values: Array) -> int:
    return max(-int(values.min()), int(values.max()))


def _kinds(*arguments: Array) -> str:
    """Returns 'i' if all are integers, 'f' if some are doubles and the others integers, else ''."""
    kinds = {argument.dtype.kind for argument in arguments}
    if kinds == {"i"}:
        return "i"
    if kinds <= {"i", "f"}:
        return "f"
    return ""


def _arithmetic(function: np.ufunc, fits: Callable[[int, int], bool]) -> Callable[..., Array | None]:
    def calculate(one: Array, other: Array) -> Array | None:
        kind = _kinds(one, other)
        if kind == "i":
            if fits(_largest(one), _largest(other)):
                result: Array | None = function(one, other)
            else:
                result = None
            return result
        if kind:
            return _finite(function, one, other)
        return None

    return calculate


def _finite(function: np.ufunc, *arguments: Array) -> Array | None:
    with np.errstate(all="ignore"):
        result: Array = function(*arguments)
    if np.isfinite(result).all():
        return result
    return None


def _quotient(one: Array, other: Array) -> Array | None:
    kind = _kinds(one, other)
    if kind == "i" and other.min() > 0:
        # Division rounds down. Add 1 to negative quotients that aren't exact.
        quotient: Array = one // other
        quotient += (quotient < 0) & (quotient * other != one)
        return quotient
    if kind == "f":
        return _finite(np.true_divide, one, other)
    return None


def _make_comparison(function: np.ufunc) -> Callable[..., Array | None]:
    return lambda *arguments: function(*arguments) if _kinds(*arguments) else None


def _of_integers(function: Callable[..., Array | None]) -> Callable[..., Array | None]:
    return lambda *arguments: function(*arguments) if _kinds(*arguments) == "i" else None


def _murmur2(values: Array, seeds: Array) -> Array:
    factor, shift = np.uint64(MURMUR), np.uint64(47)
    mixed = values.astype(np.uint64) * factor
    mixed = (mixed ^ mixed >> shift) * factor
    result = (seeds.astype(np.uint64) ^ np.uint64(8 * MURMUR % 2**64) ^ mixed) * factor
    result = (result ^ result >> shift) * factor
    return (result ^ result >> shift).astype(np.int64)


def _fnv1a(values: Array, seeds: Array) -> Array:
    left, result = values.astype(np.uint64), seeds.astype(np.uint64) ^ np.uint64(FNV_BASIS)
    for byte in range(8):
        result = (result ^ left >> np.uint64(8 * byte) & np.uint64(255)) * np.uint64(FNV_PRIME)
    return result.astype(np.int64)


def _permute_values(values: Array, sizes: Array, seeds: Array) -> Array | None:
    size, seed = int(sizes[0]), int(seeds[0])
    if (sizes != size).any() or (seeds != seed).any():
        return None
    order = permutation(size, seed)
    result: Array = order.numbers_at(np.mod(values, size))
    return result


_ARRAY_FUNCTIONS: dict[str, Callable[..., Array | None]] = {
    "+": _arithmetic(np.add, lambda one, other: one + other <= MOST),
    "-": _arithmetic(np.subtract, lambda one, other: one + other <= MOST),
    "*": _arithmetic(np.multiply, lambda one, other: one * other <= MOST),
    "/": _quotient,
    "mod": _of_integers(lambda one, other: np.fmod(one, other) if other.min() > 0 else None),
    "&": _of_integers(np.bitwise_and),
    "|": _of_integers(np.bitwise_or),
    "#": _of_integers(np.bitwise_xor),
    "<": _make_comparison(np.less),
    "<=": _make_comparison(np.less_equal),
    "=": _make_comparison(np.equal),
    "<>": _make_comparison(np.not_equal),
    "abs": lambda values: np.abs(values) if _kinds(values) and values.min() > LEAST else None,
    "double": _doubles,
    "greatest": lambda *arguments: reduce(np.maximum, arguments) if _kinds(*arguments) else None,
    "hash": _of_integers(_murmur2),
    "hash_fnv1a": _of_integers(_fnv1a),
    "hash_murmur2": _of_integers(_murmur2),
    "int": _integers,
    "least": lambda *arguments: reduce(np.minimum, arguments) if _kinds(*arguments) else None,
    "permute": _of_integers(_permute_values),
}
