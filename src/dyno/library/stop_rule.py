"""The rule that ends a run, for commands and for the library: the runner itself knows no statistics."""

from dyno.runner.parent import StopRule
from dyno.stats.capacity import capacity
from dyno.stats.decisions import find_undecided_rows
from dyno.stats.searched import is_load_limited
from dyno.stats.summary import unsure_floors, widest

STOP_RULE = StopRule(widest, find_undecided_rows, unsure_floors, capacity, is_load_limited)
