"""From a plan to a run file: the parent that starts trials, the worker that executes one, the measuring loop.

The package itself can be called: `dyno.run("records")` is a function of the library, and stays one where this
package, which has the same name, was imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        """See `dyno.library.run`."""
        from dyno.library import run

        return run(*given, **named)


sys.modules[__name__].__class__ = _Callable
