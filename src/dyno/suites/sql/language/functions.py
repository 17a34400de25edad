"""Functions and operators of pgbench's expressions, and their values.

Values are None, bool, int of 64 bits, and finite float, as in pgbench. Unlike there, a result that is infinite or not
a number is an error, and so is a shift by less than 0 or more than 63 bits.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import add, and_, eq, le, lt, mul, ne, or_, sub, truediv, xor
from typing import TYPE_CHECKING

from dyno.contracts.settings import format_value

if TYPE_CHECKING:
    from dyno.suites._shared.permutation import Permutation

Scalar = int | float | bool | None
LEAST, MOST = -(2**63), 2**63 - 1
RANDOM = {"random": 2, "random_exponential": 3, "random_gaussian": 3, "random_zipfian": 3}
"""Functions that draw, with their number of arguments."""


def call(function: str, *arguments: Scalar) -> Scalar:
    """Returns the value of a function without draws. Raises ValueError."""
    if None in arguments and function != "is":
        return None
    return FUNCTIONS[function][2](*arguments)


# -- values -----------------------------------------------------------------------------------------------------

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("T", "TRUE", "YES", "ON"), True),
    **dict.fromkeys(("F", "FALSE", "NO", "OFF"), False),
    "NULL": None,
}


def to_scalar(value: object, name: str) -> Scalar:
    """Returns the value of a variable from outside, whose text is read as pgbench does. Raises ValueError."""
    if type(value) is int:
        return check_range(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    text = str(value).strip().upper()
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(r"[-+]?\d{1,19}", text, re.ASCII):
        return check_range(int(text))
    if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)(E[-+]?\d+)?", text, re.ASCII) and math.isfinite(float(text)):
        return float(text)
    raise ValueError(f"variable {name} is no number: {format_value(value)}")


def to_int(value: Scalar) -> int:
    """Rounds to the nearest integer, and half to even."""
    if type(value) is float:
        return check_range(round(value))
    if type(value) is not int:
        raise ValueError("expected a number, got a boolean")
    return value


def to_double(value: Scalar) -> float:
    if type(value) not in (int, float):
        raise ValueError("expected a number, got a boolean")
    return float(value)  # type: ignore[arg-type]


def to_bool(value: Scalar) -> bool:
    if type(value) is not bool:
        raise ValueError(f"expected a boolean, got {value}")
    return value


def check_range(value: int) -> int:
    if not LEAST <= value <= MOST:
        raise ValueError("overflow: the result has more than 64 bits")
    return value


# -- functions --------------------------------------------------------------------------------------------------


def _double(name: str, function: Callable[..., float]) -> Callable[..., float]:
    """Makes a function of doubles raise ValueError, with its arguments, if the result is not finite."""

    def finite(*arguments: Scalar) -> float:
        numbers = [to_double(argument) for argument in arguments]
        try:
            if math.isfinite(result := function(*numbers)):
                return result
        except ZeroDivisionError:
            raise ValueError("division by zero") from None
        except (ValueError, ArithmeticError):
            pass
        raise ValueError(f"{name}({', '.join(map(repr, numbers))}) has no finite value")

    return finite


def _arithmetic(
    name: str, integer: Callable[[int, int], int], double: Callable[[float, float], float]
) -> Callable[..., Scalar]:
    of_doubles = _double(name, double)

    def calculate(one: Scalar, other: Scalar) -> Scalar:
        if type(one) is int and type(other) is int:
            return check_range(integer(one, other))
        if type(one) is float or type(other) is float:
            return of_doubles(one, other)
        return check_range(integer(to_int(one), to_int(other)))

    return calculate


def _make_comparison(compare: Callable[[float, float], bool]) -> Callable[..., bool]:
    def compare_scalars(one: Scalar, other: Scalar) -> bool:
        read: Callable[[Scalar], float] = to_int
        if type(one) is float or type(other) is float:
            read = to_double
        return compare(read(one), read(other))

    return compare_scalars


def _integers(function: Callable[..., int]) -> Callable[..., int]:
    return lambda *arguments: check_range(function(*map(to_int, arguments)))


def _extreme(choose: Callable[[Iterable[float]], float]) -> Callable[..., Scalar]:
    def choice(*arguments: Scalar) -> Scalar:
        read: Callable[[Scalar], float] = to_int
        if float in map(type, arguments):
            read = to_double
        return choose(map(read, arguments))

    return choice


def _quotient(one: int, other: int) -> int:
    """Divides and truncates towards zero."""
    if not other:
        raise ValueError("division by zero")
    quotient = abs(one) // abs(other)
    if (one < 0) == (other < 0):
        return quotient
    return -quotient


def _no_draw(*_: Scalar) -> Scalar:
    raise ValueError("a random function can't be used here")


def _shift_bits(value: int, bits: int) -> int:
    """Shifts to the left, or to the right if `bits` is negative."""
    if bits >= 0:
        return wrap_to_64_bits(value << bits)
    return value >> -bits


def _width(bits: int) -> int:
    if not 0 <= bits < 64:
        raise ValueError(f"expected a shift by 0 to 63 bits, got {bits}")
    return bits


def wrap_to_64_bits(value: int) -> int:
    """Returns the lowest 64 bits as a signed integer."""
    return (value + 2**63) % 2**64 - 2**63


MURMUR = 0xC6A4A7935BD1E995
FNV_BASIS, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_BITS_64 = 2**64 - 1


def _murmur2(value: int, seed: int) -> int:
    """MurmurHash64A of the 8 bytes of a number."""
    mixed = value * MURMUR & _BITS_64
    mixed = (mixed ^ mixed >> 47) * MURMUR & _BITS_64
    result = (seed & _BITS_64 ^ 8 * MURMUR & _BITS_64 ^ mixed) * MURMUR & _BITS_64
    result = (result ^ result >> 47) * MURMUR & _BITS_64
    return wrap_to_64_bits(result ^ result >> 47)


def _fnv1a(value: int, seed: int) -> int:
    """FNV-1a of the 8 bytes of a number, lowest first."""
    result = FNV_BASIS ^ seed & _BITS_64
    for byte in (value & _BITS_64).to_bytes(8, "little"):
        result = (result ^ byte) * FNV_PRIME & _BITS_64
    return wrap_to_64_bits(result)


@lru_cache(maxsize=64)
def permutation(size: int, seed: int) -> "Permutation":
    if not 1 <= size <= 2**62:
        raise ValueError(f"permute() takes a size from 1 to 2^62, got {size}")
    from dyno.suites._shared.permutation import Permutation

    return Permutation(size, seed & _BITS_64)


def _permute_value(value: int, size: int, seed: int) -> int:
    """The permutation is another one than pgbench's."""
    import numpy as np

    return int(permutation(size, seed).numbers_at(np.array([value % size]))[0])


FUNCTIONS: dict[str, tuple[int, int | None, Callable[..., Scalar]]] = {
    "+": (2, 2, _arithmetic("+", add, add)),
    "-": (2, 2, _arithmetic("-", sub, sub)),
    "*": (2, 2, _arithmetic("*", mul, mul)),
    "/": (2, 2, _arithmetic("/", _quotient, truediv)),
    "mod": (2, 2, _integers(lambda one, other: one - other * _quotient(one, other))),
    "&": (2, 2, _integers(and_)),
    "|": (2, 2, _integers(or_)),
    "#": (2, 2, _integers(xor)),
    "<<": (2, 2, _integers(lambda value, bits: _shift_bits(value, _width(bits)))),
    ">>": (2, 2, _integers(lambda value, bits: _shift_bits(value, -_width(bits)))),
    "<": (2, 2, _make_comparison(lt)),
    "<=": (2, 2, _make_comparison(le)),
    "=": (2, 2, _make_comparison(eq)),
    "<>": (2, 2, _make_comparison(ne)),
    "is": (2, 2, lambda one, other: one is other),
    "not": (1, 1, lambda value: not to_bool(value)),
    "abs": (1, 1, lambda value: abs(value) if type(value) is float else check_range(abs(to_int(value)))),
    "double": (1, 1, to_double),
    "exp": (1, 1, _double("exp", math.exp)),
    "greatest": (1, None, _extreme(max)),
    "hash": (1, 2, _integers(_murmur2)),
    "hash_fnv1a": (1, 2, _integers(_fnv1a)),
    "hash_murmur2": (1, 2, _integers(_murmur2)),
    "int": (1, 1, to_int),
    "least": (1, None, _extreme(min)),
    "ln": (1, 1, _double("ln", math.log)),
    "permute": (2, 3, _integers(_permute_value)),
    "pi": (0, 0, lambda: math.pi),
    "pow": (2, 2, _double("pow", math.pow)),
    "power": (2, 2, _double("power", math.pow)),
    "sqrt": (1, 1, _double("sqrt", math.sqrt)),
    **{name: (count, count, _no_draw) for name, count in RANDOM.items()},
}
"""Functions and operators: the least and the largest number of arguments, and the function of values other than
null."""
SEEDED = ("hash", "hash_fnv1a", "hash_murmur2", "permute")
"""Functions whose last argument is `default_seed` if it is left out."""
