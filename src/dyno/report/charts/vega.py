"""Loads vl-convert, the charting library, and refuses to where it would abort the process."""

from __future__ import annotations

import resource
from typing import Any

from dyno.contracts.model import UsageError
from dyno.host import installation

GIB = 1 << 30
ADDRESS_SPACE = 66 * GIB
"""What its V8 reserves when it starts, without using it: with 38 GiB it aborts with a native stack, 67 are enough."""


def load(purpose: str) -> Any:
    """Returns the module. Raises UsageError, which begins with `purpose` if it is missing."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise UsageError(
            f"charts need {ADDRESS_SPACE // GIB} GiB of address space, and the limit is {limit / GIB:.1f} GiB:"
            " raise it by `ulimit -v unlimited`"
        )
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UsageError(f"{purpose}: {installation.extra('report')}") from None
    except ImportError as error:
        raise UsageError(f"vl-convert can't be loaded: {' '.join(str(error).split())}") from None
    return vl_convert
