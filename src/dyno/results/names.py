"""Short names of run files. Files of the same name are told apart by their folders."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dyno.contracts.sanitize import sanitize


def distinct_names(paths: Sequence[Path], depths: Sequence[int] = ()) -> list[str]:
    """Returns a name for each run file: its name without the ending, after as many of its folders as it takes to
    differ from the others: 'here/memory', 'there/memory'. Beside a run file r.json, another r keeps its ending.
    `depths`: the least number of parts of each name, by default 1."""
    whole = [Path(sanitize(str(path.absolute()), keep="")) for path in paths]
    stems = [path.with_suffix("") for path in whole]
    alike = Counter(stems)
    shown = [
        path if alike[stem] > 1 and path.suffix != ".json" else stem for path, stem in zip(whole, stems, strict=True)
    ]
    return _distinct([path.parts[1:] for path in shown], depths or [1] * len(paths))


def folder_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Returns a name for the folder of each run file, by its absolute path."""
    folders = list(dict.fromkeys(path.absolute().parent for path in paths))
    return dict(zip(folders, _distinct([folder.parts[1:] for folder in folders], [1] * len(folders)), strict=True))


def _distinct(parts: Sequence[Sequence[str]], depths: Sequence[int]) -> list[str]:
    """Returns the last parts of each path: as many as `depths` says, or as it takes to differ. The same path twice is
    numbered. Names are compared in lower case, because some file systems ignore case."""
    lengths = list(depths)
    whole = ["/".join(of).lower() for of in parts]
    while True:
        names = ["/".join(of[-length:]) for of, length in zip(parts, lengths, strict=True)]
        places: dict[str, set[str]] = {}
        for name, place in zip(names, whole, strict=True):
            places.setdefault(name.lower(), set()).add(place)
        more = [at for at, of in enumerate(parts) if len(places[names[at].lower()]) > 1 and lengths[at] < len(of)]
        if not more:
            break
        for at in more:
            lengths[at] += 1
    seen, numbered = Counter[str](), list[str]()
    for name in names:
        seen[name.lower()] += 1
        numbered.append(name if seen[name.lower()] == 1 else f"{name}-{seen[name.lower()]}")
    return numbered
