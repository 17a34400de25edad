"""Damages files and command lines at random, each from a seed. Imports nothing of Dyno."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

DEEP = 3_000


class Raw(str):
    """Text to write unchanged, whether it is JSON or not."""


HOSTILE = (
    "",
    "x",
    "\x1b[2J\x1b[31mred",
    "\x9b1;1H",
    "\u202egnp.exe",
    "\ud800",
    "\udc80\udcff",
    "two\nlines",
    "carriage\rreturn\0",
    "a\u2028b\u0085c",
    "[/bold]",
    "[link=x]:smile:",
    "<script>alert(1)</script>",
    "</style>{{ 7*7 }}",
    "=1+1",
    "../../up",
    "%s%n",
    "'); drop",
    "datum['x']",
    "x" * 60_000,
    "é" * 5_000,
    "クエリ",
    "2026-13-45T99:00:00",
    "0001-01-01T00:00:00+14:00",
    "power",
    "max",
    "throughput",
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, 100, 101, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 1e-9, 1e15, 1e299, 1e308, Raw("1e999"), Raw("NaN"), Raw("-Infinity")),
    *(Raw("9" * 5_000), Raw("0x10"), Raw("1_000"), Raw("01"), Raw("-"), Raw("1e")),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], {"x": 1}, [1, "a", None], [{}], {"": {}}),
    *(Raw("[" * DEEP + "]" * DEEP), Raw('{"a":' * DEEP + "1" + "}" * DEEP), Raw('{"a":1,"a":2}')),
    *(Raw("nul"), Raw("")),
)


# -- JSON, valid or not ---------------------------------------------------------------------------------------


def text(found: Any, escaped: bool = True) -> str:
    if isinstance(found, Raw):
        return found
    if isinstance(found, dict):
        pairs = (f"{text(key, escaped)}:{text(value, escaped)}" for key, value in found.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(found, list):
        return "[" + ",".join(text(value, escaped) for value in found) + "]"
    return json.dumps(found, ensure_ascii=escaped)


Position = tuple[Any, Any]
"""A dict or a list, with one of its keys or indices."""


def positions(found: Any) -> Iterator[Position]:
    """The positions of all nested values, in a fixed order."""
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in items:
        yield found, key
        yield from positions(value)


def replacement(random: Random, value: Any) -> Any:
    """A replacement for a value, mostly of the same type, which is harder to detect."""
    if random.random() < 0.25:
        return random.choice((*HOSTILE, *NUMBERS, *OTHERS))
    if isinstance(value, bool) or value is None:
        return random.choice((True, False, None, 0, 1, "x", {}))
    if isinstance(value, int):
        return random.choice((*NUMBERS, value + 1, -value, value * 10**9, value // 1_000, float(value)))
    if isinstance(value, float):
        return random.choice((*NUMBERS, -value, value * 1e9, int(value) if abs(value) < 1e18 else 0))
    if isinstance(value, str):
        return histogram(random, value) if value.startswith("HISTF") else random.choice((*HOSTILE, value * 2))
    if isinstance(value, list):
        return random.choice(([], value * 2, value[1:], [*value, None], list(reversed(value)), value * 30, {}))
    shorter = dict(list(value.items())[1:])
    return random.choice(({}, {**value, "later": {"a": [1]}}, {**value, "\x1b[1m": 5}, [], shorter))


def histogram(random: Random, value: str) -> str:
    """A damaged histogram: its counts, its head or its compression."""
    packed = base64.b64decode(value)
    plain = bytearray(zlib.decompress(packed[8:]))
    way = random.randrange(5)
    if way == 0:
        return value[: random.randrange(len(value))]
    if way == 1:
        return base64.b64encode(packed[:8] + zlib.compress(bytes(50_000_000))).decode()
    for _ in range(random.randint(1, 4)):
        # Mostly behind the header, because Dyno checks the header first.
        plain[random.randrange(0 if way == 2 else 40, len(plain))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
    body = zlib.compress(bytes(plain))
    return base64.b64encode(packed[:4] + len(body).to_bytes(4, "big") + body).decode()


def damage_value(random: Random, line: dict[str, Any]) -> None:
    where, key = random.choice(list(positions(line)))
    way = random.random()
    if way < 0.65:
        where[key] = replacement(random, where[key])
    elif way < 0.8:
        del where[key]
    elif way < 0.9 and isinstance(where, dict):
        # Keeps the order of the keys.
        renamed = random.choice((*HOSTILE, key.upper()))
        items = [(renamed if name == key else name, value) for name, value in where.items()]
        where.clear()
        where.update(items)
    else:
        other, name = random.choice(list(positions(line)))
        where[key] = deepcopy(other[name])


def damage_line(random: Random, line: str) -> str:
    """Changes one to three values of a line, or repeats a key."""
    data = json.loads(line)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        damage_value(random, data)
    damaged = text(data, random.random() < 0.8)
    if random.random() < 0.05:
        ends = damaged.find('":', random.randrange(len(damaged)))
        begins = damaged.rfind('"', 0, ends)
        if 0 <= begins < ends:
            damaged = f"{damaged[:begins]}{damaged[begins : ends + 2]}0,{damaged[begins:]}"
    return damaged


# -- run files ------------------------------------------------------------------------------------------------


def run_file(random: Random, whole: bytes) -> bytes:
    """Damages a run file, sometimes harmlessly."""
    way = random.random()
    if way < 0.75:
        lines = whole.decode().splitlines()
        at = random.randrange(len(lines)) if random.random() < 0.6 else 0
        lines[at] = damage_line(random, lines[at])
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
    return random.choice(BYTES)(random, whole) if way < 0.9 else damage_lines(random, whole)


def truncate(random: Random, whole: bytes) -> bytes:
    return whole[: random.randrange(len(whole))]


def flip_bits(random: Random, whole: bytes) -> bytes:
    damaged = bytearray(whole)
    for _ in range(random.randint(1, 8)):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


def splice(random: Random, whole: bytes) -> bytes:
    """Removes, repeats or zeroes a range of bytes."""
    first, last = sorted(random.randrange(len(whole)) for _ in range(2))
    last = min(last, first + random.choice((1, 10, 300)))
    return whole[:first] + random.choice((b"", whole[first:last] * 2, bytes(last - first))) + whole[last:]


BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (truncate, flip_bits, splice)


INSERTED = (b"\n", b"null\n", b"[]\n", b"5\n", b'{"kind":"later"}\n', b'{"kind":"end"}\n')


def damage_lines(random: Random, whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    at = random.randrange(len(lines))
    way = random.randrange(5)
    if way == 0:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif way == 1:
        del lines[at]
    elif way == 2:
        random.shuffle(lines[1:])
        lines = [lines[0], *random.sample(lines[1:], len(lines) - 1)]
    elif way == 3:
        lines.insert(at, random.choice(INSERTED))
    else:
        lines[at] = lines[at].replace(b"\n", random.choice((b"\r\n", b" \n", b"\n\n", b"\r")))
    return b"".join(lines)


# -- plans ----------------------------------------------------------------------------------------------------

WORDS = (
    *('"x"', '""', "0", "-1", "1.5", "1e999", "nan", "inf", "-inf", "true", "[]", "{}", "[[]]"),
    *("9" * 40, "9" * 5_000),
    *("1979-05-27", "07:32:00", "0x" + "f" * 6_000, '"\\u001b[2J"', '"\\u202e"', "'''two\nlines'''", "[1, [2, [3]]]"),
    *("{ a = { b = 1 } }", "[" * DEEP + "]" * DEEP, "{ a = " * 800 + "1" + " }" * 800, '"' + "x" * 60_000 + '"'),
    *("[" + ", ".join(map(str, range(1, 400))) + "]", '["a", 1, 2.5, true]', "1_000", "9223372036854775807", "0b1"),
    *('{ name = "sqlite", journal_mode = [1] }', '[{ name = "sqlite", "\\n" = 2 }]', "", "=", '"5%"', '"power"'),
)


KEYS = ("x", "sample", "[param]", "[[engine]]", "param.records", "memory", "seed", "within")


def plan(random: Random, whole: str) -> bytes:
    """Damages a plan file, sometimes harmlessly."""
    way = random.random()
    if way < 0.15:
        return random.choice(BYTES)(random, whole.encode())
    lines = whole.splitlines()
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(lines))
        key, equals, _ = lines[at].partition(" = ")
        if way < 0.85 and equals:
            lines[at] = f"{key} = {random.choice(WORDS)}"
        elif way < 0.9:
            lines.insert(at, random.choice(lines))
        elif way < 0.95:
            lines[at] = f"{random.choice(KEYS)} = {random.choice(WORDS)}"
        else:
            del lines[at]
            lines.append("")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


# -- command lines --------------------------------------------------------------------------------------------

# No word leads out of the directory or opens a browser.
LETTERS = "abcxyzABC0159-_=:+,%[]{}()* \t\n'\"é\x1b\u202e"
ARGUMENTS = (
    *("", "-", "--", "-1", "0", "1", "nan", "inf", "1e999", "9" * 30, "9" * 5_000, "x", "x" * 120_000),
    *("\x1b[2J", "é"),
    *("a=b", "=", "records=1,2", "records=", "clients=0", "rate=nan", "sqlite:", "sqlite:x", "records=" + "9" * 30),
    *("-e", "-p", "-o", "--json", "--csv", "--help", "--version", "--samples", "--until", "--metric", "p99", "5%"),
    *("r.json", "none.json", "plan.toml", "records", "lmdb,sqlite", "rand-key", "power", "x.svg", "x.parquet"),
)


def command(random: Random, words: list[str]) -> list[str]:
    """Damages the words of a command, sometimes harmlessly."""
    damaged = list(words)
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(damaged) + 1)
        way = random.randrange(5)
        if way == 0 or not damaged:
            damaged.insert(at, random.choice(ARGUMENTS))
        elif way == 1:
            damaged.insert(at, random.choice(damaged))
        elif way == 2:
            del damaged[at % len(damaged)]
        elif way == 3:
            damaged[at % len(damaged)] = random.choice(ARGUMENTS)
        else:
            word = damaged[at % len(damaged)]
            place = random.randrange(len(word) + 1)
            damaged[at % len(damaged)] = word[:place] + random.choice(LETTERS) + word[place + random.randrange(2) :]
    return damaged
