"""The run file: every trial's outcome and samples, with everything needed to judge and to repeat them.

A run file consists of lines of JSON. The first line describes the run (schema, plan, cells, machine). Each later line
is a trial, appended and flushed to the device as soon as the trial has ended. A killed process may leave an
incomplete last line: readers ignore it, and it is cut off before the next line is appended. See
docs/reference/run-file.md.
"""

from dyno.results.header import MOST_CELLS as MOST_CELLS
from dyno.results.parse import damaged as damaged
from dyno.results.parse import is_run_file as is_run_file
from dyno.results.parse import lines as lines
from dyno.results.parse import parsed as parsed
from dyno.results.read import READABLE as READABLE
from dyno.results.read import SCHEMA as SCHEMA
from dyno.results.read import load as load
from dyno.results.read import planned as planned
from dyno.results.read import sample as sample
from dyno.results.run import FLOOR_BLOCKS as FLOOR_BLOCKS
from dyno.results.run import Attempt as Attempt
from dyno.results.run import Run as Run
from dyno.results.run import is_reference as is_reference
from dyno.results.write import Lock as Lock
from dyno.results.write import RunFileLost as RunFileLost
from dyno.results.write import append as append
from dyno.results.write import as_read as as_read
from dyno.results.write import create as create
from dyno.results.write import cut_incomplete_line as cut_incomplete_line
from dyno.results.write import end as end
