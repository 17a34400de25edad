"""What pyproject.toml can't say: the native part where it can be built, and the description for a package index."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools_rust import Binding, RustExtension

HERE = Path(__file__).parent
LOWEST = "cp310"
"""The stable ABI of that Python: one wheel serves it and all later ones. As in rust/Cargo.toml."""
REQUIRED = os.environ.get("DYNO_NATIVE") == "required"
"""For wheels that others install: without the native part there is none."""

IMAGES = re.compile(r"<picture>.*?</picture>\n*", re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)([^)]*)\)")


def described(readme: str) -> str:
    """The README as a package index shows it, beside none of the repository's files: without images that it has not,
    and with the names of files in the place of links to them."""
    return LINK.sub(lambda link: _named(link[1], link[2]), IMAGES.sub("", readme))


def _named(text: str, target: str) -> str:
    path = target.partition("#")[0]
    return text if not path or path in text else f"{text} (`{path}`)"


# Without cargo the wheel is one for every machine, as it says by its name; the loop in Python measures.
able = REQUIRED or shutil.which("cargo") is not None
native = RustExtension(
    "dyno._native",
    path="rust/measure/Cargo.toml",
    binding=Binding.PyO3,
    py_limited_api=True,
    # A toolchain that is too old, or can't get the crates, leaves the installation as one without.
    optional=not REQUIRED,
    debug=False,
    args=["--locked"],
)
setup(
    rust_extensions=[native] if able else [],
    options={"bdist_wheel": {"py_limited_api": LOWEST}} if able else {},
    long_description=described((HERE / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
