"""Writes the parts of the reference that follow from declarations; `--check` compares, `--words` counts.

Some pages are written whole. In others, people write the text and the tool fills the blocks between
`<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from pages import checks, commands, contracts, engines, formats, library, suites, tables
from pages.text import DOCS, ROOT, by_hand, filled

BLOCKS: Mapping[str, Callable[..., str]] = {
    **engines.BLOCKS,
    **suites.BLOCKS,
    **commands.BLOCKS,
    **checks.BLOCKS,
    **library.BLOCKS,
    **formats.BLOCKS,
    **contracts.BLOCKS,
}


def pages() -> dict[str, str]:
    """The text of each page that has a generated part, by its path below docs/."""
    whole = {**tables.pages(), **engines.pages()}
    mixed = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    return {**{name: filled(text, BLOCKS) for name, text in mixed.items() if "<!-- generated:" in text}, **whole}


def gone(names: Sequence[str]) -> list[str]:
    """Pages of engines that there are no longer."""
    folder = DOCS / "reference" / "engines"
    return [name for page in folder.glob("*.md") if (name := f"reference/engines/{page.name}") not in names]


def words() -> None:
    """Prints how many words of the documentation people write, and how many the tool writes."""
    texts = {page: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]}
    hand = {page: len(by_hand(text).split()) for page, text in texts.items()}
    for page, count in hand.items():
        print(f"{count:6,} of {len(texts[page].split()):6,}  {page.relative_to(ROOT)}")
    total = sum(len(text.split()) for text in texts.values())
    print(f"{sum(hand.values()):,} words by hand, {total - sum(hand.values()):,} generated")


def main(arguments: Sequence[str]) -> int:
    if "--words" in arguments:
        words()
        return 0
    current = pages()
    old = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    stale = [name for name, text in current.items() if old.get(name) != text]
    surplus = gone([*current, "reference/engines/index.md"])
    if "--check" in arguments:
        for name in [*stale, *surplus]:
            print(f"docs/{name} is not what the declarations say: run `make reference`", file=sys.stderr)
        return 1 if stale or surplus else 0
    for name in stale:
        (DOCS / name).write_text(current[name], encoding="utf-8")
    for name in surplus:
        (DOCS / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
