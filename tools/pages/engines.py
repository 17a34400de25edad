"""A page for each engine: its declaration, then its family's README. And a page of caveats."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from pages.text import DOCS, WRITTEN, code, moved, nested, sections, table

import dyno.engines
from dyno import registry
from dyno.contracts.counters import unreadable_counters
from dyno.contracts.engine import EngineSpec
from dyno.contracts.model import Caveat
from dyno.contracts.programs import GoModule
from dyno.contracts.settings import Setting
from dyno.contracts.versions import Maven, Source, Wheel

ENGINES = Path(dyno.engines.__file__).parent
UNKNOWN = "…"
VERSIONS = "../versions.md"
FILES = "Files"
"""The README's section for contributors, which the site does not have."""
SHARING = {
    "one": "one",
    "threads": "several, as threads of one process",
    "processes": "several, as processes",
    "turns": "several, in turns in a process for each core",
}


@cache
def specs() -> list[EngineSpec]:
    """Dyno's own engines."""
    return [registry.engine(name) for name in sorted(registry.find_own("engine"))]


def path(spec: EngineSpec) -> Path:
    return DOCS / "reference" / "engines" / f"{spec.name}.md"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and abs(value) > 9999:
        return f"{value:,}"
    return str(value)


def source(spec: EngineSpec) -> str:
    """The module that declares the engine."""
    return registry.find_own("engine")[spec.name].partition(":")[0]


def readme(spec: EngineSpec) -> Path | None:
    """The README of the engine's family, or the page of an engine that is a single file."""
    parts = source(spec).split(".")
    family = ENGINES / parts[2]
    page = family / "README.md" if family.is_dir() else family.with_suffix(".md")
    return page if page.is_file() else None


def suites(spec: EngineSpec) -> Iterable[tuple[str, str]]:
    """The suites that the engine takes part in, each with the port."""
    for name in sorted(registry.find_own("suite")):
        for port in registry.suite(name).ports:
            if port in spec.ports:
                yield name, port
                break


def requirements(spec: EngineSpec) -> Iterable[str]:
    """What the engine needs, as one line each."""
    if spec.installation.python:
        yield f"Python {spec.installation.python}, in an environment of its own"
    for source, of in (("pip", "requires"), ("Debian", "packages")):
        known = dict.fromkeys(getattr(spec.installation, of), "")
        for name, port in spec.ports.items():
            known |= {each: f" ({name})" for each in getattr(port.installation, of) if each not in known}
        if known:
            yield f"from {source}: " + ", ".join(code(each) + note for each, note in known.items())
    for program in spec.installation.programs:
        how = "fetched by Maven"
        if isinstance(program.source, GoModule):
            how = "built by Go"
        yield f"{program.name} {program.version}, {how}"


def facts(spec: EngineSpec) -> Iterable[tuple[str, str]]:
    needs = list(requirements(spec))
    yield "Suites", ", ".join(f"[{suite}](../suites/{suite}.md)" for suite, _ in suites(spec)) or "none yet"
    if needs:
        yield "Install", code(f"dyno install {spec.name}")
        yield "Needs", "; ".join(needs)
    else:
        yield "Install", "nothing to install"
    if spec.versions is not None:
        sources = "; ".join(map(describe_source, spec.versions.sources))
        yield "Versions", f"[others]({VERSIONS}), by {code(f'dyno install {spec.name}@VERSION')}: {sources}"
    yield "Clients", SHARING[spec.clients]
    if spec.listing.by_default and not spec.listing.untested:
        yield "Runs", "by default"
    else:
        yield "Runs", "when it is named"
    if spec.server is not None:
        own = ", or your own with `url`" * any(option.address for option in spec.options)
        yield "Server", f"started by Dyno for each trial{own}"
    if spec.in_memory:
        yield "Memory", "reads from memory only: no cold phases"
    if spec.listing.untested:
        yield "Untested", spec.listing.untested


def describe_source(source: Source) -> str:
    """Returns where versions come from, and which ones: 'package `duckdb` of Python from 0.9 on'."""
    if isinstance(source, Wheel):
        name = f"package {code(source.distribution)} of Python"
    elif isinstance(source, Maven):
        name = f"archive {code(source.artifact)} by Maven"
    elif isinstance(source.pinned.source, GoModule):
        name = f"module {code(source.pinned.source.path)}, built by Go,"
    else:
        name = "archives by Maven"
    start = f" from {source.earliest} on" if source.earliest else ""
    return name + start + (f", before {source.below}" if source.below else "")


def tiers(spec: EngineSpec) -> str:
    declared = [(port, spec.ports[port].tiers) for port in spec.ports]
    rows = [
        (
            code(tier.value) + (" (default)" if tier is spec.default_tier else ""),
            tier.meaning,
            code(*(f"{name}={shown(value)}" for name, value in settings.items())) or "no setting",
        )
        for tier, settings in spec.tiers.items()
    ]
    text = "None: it stores nothing."
    if rows:
        text = table(("Tier", "An acknowledged write is", "Settings"), rows)
    for port, own in declared:
        if own is not None and spec.tiers:
            text += f"\n\nThrough the port `{port}`: {code(*(tier.value for tier in own)) or 'it stores nothing'}."
    return text


def accepted(setting: Setting) -> str:
    """What values a setting accepts, as its own error message says."""
    try:
        setting.parse("\0")
    except ValueError as error:
        text = str(error).removeprefix("expected ").removeprefix("is not known; there are: ")
        return plain_numbers(text.replace("one of , ", ""))
    except Exception:
        pass
    return "text"


def plain_numbers(text: str) -> str:
    """The text with thousands separated, and without the upper limit that stands for no limit."""
    text = text.replace("a whole number from ", "").replace(" to 1000000000000", " up").replace("one of ", "")
    return re.sub(r"(?<![.\d])\d{5,}\b", lambda number: f"{int(number[0]):,}", text)


def options(spec: EngineSpec) -> str:
    declared = [("", option) for option in spec.options]
    declared += [(name, option) for name, port in spec.ports.items() for option in port.options]
    rows = [
        (
            code(option.name),
            code(shown(option.default)) if option.default != "" else "",
            accepted(option) if not option.address else "an address",
            option.help + (f" (port `{port}` only)" if port else ""),
        )
        for port, option in declared
    ]
    if rows:
        return table(("Option", "Default", "Values", "Meaning"), rows)
    return "None."


def caveats(spec: EngineSpec) -> dict[str, str]:
    """The engine's caveats by code: those it declares, and those in the source of what opens it."""
    found = {caveat.code: caveat.text for caveat in spec.caveats}
    opener: Any = spec.opener
    while isinstance(opener, partial):
        opener = opener.func
    for kind in opener.__mro__ if inspect.isclass(opener) else [opener]:
        if kind.__module__.startswith("dyno."):
            # A class overrides the caveats of its bases.
            found = {**caveats_of(kind), **found}
    if spec.counters is not None:
        unreadable = unreadable_counters(UNKNOWN)
        found[unreadable.code] = unreadable.text
    return dict(sorted(found.items()))


@cache
def caveats_of(kind: Any) -> Mapping[str, str]:
    """The caveats in the source of a class or a function: constants that it uses, and those that it makes."""
    names = vars(sys.modules[kind.__module__])
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Caveat" and len(node.args) == 2:
            name, text = literal(node, names)
            # One that an engine's own declaration names is found there.
            found |= {name: text} if name != UNKNOWN else {}
        elif isinstance(node, ast.Name) and isinstance(value := names.get(node.id), Caveat):
            found[value.code] = value.text
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = getattr(names.get(node.value.id), node.attr, None)
            if isinstance(value, Caveat):
                found[value.code] = value.text
    return found


def literal(call: ast.Call, names: Mapping[str, object]) -> tuple[str, str]:
    """Code and text of a caveat that a call makes. What is known only when it runs is an ellipsis."""
    return text_of(call.args[0], names), text_of(call.args[1], names)


def text_of(node: ast.expr, names: Mapping[str, object]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        value = None
        if isinstance(node.value, ast.Name):
            value = names.get(node.value.id)
        if isinstance(value, str):
            return value
        return UNKNOWN
    if isinstance(node, ast.Name) and isinstance(names.get(node.id), str):
        return str(names[node.id])
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr(names.get(node.value.id), node.attr, None)
        if isinstance(value, str):
            return value
        return UNKNOWN
    return UNKNOWN


def gaps(spec: EngineSpec) -> str:
    rows = [(code(gap.check), gap.kind, gap.reason) for gap in spec.gaps]
    if rows:
        return table(("Check", "Kind", "Why it does not pass"), rows)
    return ""


def page(spec: EngineSpec) -> str:
    parts = [
        f"# {spec.name}",
        WRITTEN.format("its declaration or its family's README"),
        f"{spec.title}.",
        "\n".join(f"- **{name}:** {text}" for name, text in facts(spec)),
        "## Tiers",
        tiers(spec),
        "## Options",
        options(spec),
    ]
    if remarks := caveats(spec):
        rows = [(code(name), text) for name, text in remarks.items()]
        parts += ["## Caveats", table(("Code", "The row's engine …"), rows)]
    if missing := gaps(spec):
        parts += ["## Gaps in conformance", missing]
    if (about := readme(spec)) is not None:
        parts += [family(about, path(spec))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def family(about: Path, page: Path) -> str:
    """The family's README as a part of an engine's page, without its section for contributors."""
    text = about.read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    parts = sections(text.partition("\n")[2])
    parts.pop(FILES, None)
    kept = parts.pop("") + "".join(f"## {name}{body}" for name, body in parts.items())
    return moved(nested(f"# {title}\n{kept}", f"Notes on {title}"), about, page)


COUNTERS_PAGE = """# Engine counters

{written}

What engines count of their own work. Dyno reads these counters before and after each phase, while its clock stands
still, and subtracts what a reading counts by itself. The differences are `samples[].counters` of the
[run file](run-file.md#trial-lines); the medians over trials are `cells[].counters` of
[`dyno show --json`](show-json.md). Units are counts, bytes and ns.

A server's counters are the whole server's: on your own server, they include what others did meanwhile. A counter that
a version of the engine lacks is left out, and so is one that shrank, as at a restart.

{engines}
"""


def counters_page() -> str:
    """The page of all engines' own counters. Engines that share a declaration share a table."""
    families: dict[int, list[EngineSpec]] = {}
    for spec in specs():
        if spec.counters is not None:
            families.setdefault(id(spec.counters), []).append(spec)
    parts = []
    for family in families.values():
        counters = family[0].counters
        assert counters is not None
        rows = [(code(each.name), each.unit, each.meaning) for each in counters.counters]
        title = ", ".join(spec.name for spec in family)
        sources = f"Source: {counters.source}."
        if (waits := family[0].waits) is not None:
            sources += f" [Waits](../explanations/why.md#the-profiled-trial) of its sessions: {waits.source}."
        parts.append(f"## {title}\n\n{table(('Counter', 'Unit', 'Meaning'), rows)}\n\n{sources}")
    return COUNTERS_PAGE.format(
        written=WRITTEN.format("`counters` in the engines' declarations"), engines="\n\n".join(parts)
    )


def pages() -> dict[str, str]:
    """The text of each engine's page, and of the page of counters, by path below docs/."""
    engines = {f"reference/engines/{spec.name}.md": page(spec) for spec in specs()}
    return {**engines, "reference/engine-counters.md": counters_page()}


def every() -> str:
    """A table of all engines."""
    rows = [
        (
            f"[{spec.name}]({spec.name}.md)",
            spec.title,
            ", ".join(suite for suite, _ in suites(spec)),
            ", ".join(tier.value for tier in spec.tiers) or "none",
        )
        for spec in specs()
    ]
    return table(("Engine", "What it is", "Suites", "Tiers"), rows)


def all_caveats() -> str:
    """A table of all caveats, with the engines that have them."""
    known: dict[tuple[str, str], list[str]] = {}
    for spec in specs():
        for name, text in caveats(spec).items():
            known.setdefault((name, text), []).append(f"[{spec.name}](engines/{spec.name}.md)")
    rows = [(code(name), text, ", ".join(engines)) for (name, text), engines in sorted(known.items())]
    return table(("Code", "The row's engine …", "Engines"), rows)


BLOCKS: dict[str, Callable[..., str]] = {"engines": every, "caveats": all_caveats}
