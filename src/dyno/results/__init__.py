"""The run file: every trial's outcome and samples, with everything needed to judge and to repeat them.

A run file consists of lines of JSON. The first line describes the run (schema, plan, cells, machine). Each later line
is a trial, appended and flushed to the device as soon as the trial has ended. A killed process may leave an
incomplete last line: readers ignore it, and it is cut off before the next line is appended. See
docs/reference/run-file.md.
"""

from dyno.results.header import MOST_CELLS
from dyno.results.read import (
    READABLE,
    SCHEMA,
    check_sample,
    damaged_file_error,
    is_run_file,
    lines,
    load,
    parse_line,
    planned_cells,
    sample,
)
from dyno.results.run import FLOOR_BLOCKS, Attempt, Run, defined_work, is_reference
from dyno.results.write import (
    Lock,
    RunFileLost,
    append,
    append_profile,
    as_read,
    create,
    cut_incomplete_line,
    encode,
    end,
    extend,
)

__all__ = ["FLOOR_BLOCKS", "MOST_CELLS", "READABLE", "SCHEMA", "Attempt", "Lock", "Run", "RunFileLost", "append"]
__all__ += [
    "append_profile",
    "as_read",
    "check_sample",
    "create",
    "cut_incomplete_line",
    "damaged_file_error",
    "defined_work",
    "encode",
    "end",
    "extend",
    "is_reference",
    "is_run_file",
]
__all__ += ["lines", "load", "parse_line", "planned_cells", "sample"]
