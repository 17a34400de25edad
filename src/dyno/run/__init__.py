"""From a plan to a run file: the parent that starts trials, the worker that executes one, the measuring loop."""
