"""Three ways to count the words of a text, which `calls.toml` compares."""

from __future__ import annotations

from collections import Counter, defaultdict


def texts() -> list[str]:
    return ["a b a", "to be or not to be " * 100]


def plain(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def default(text: str) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for word in text.split():
        counts[word] += 1
    return dict(counts)


def counter(text: str) -> dict[str, int]:
    return dict(Counter(text.split()))
