"""From a plan to a run file: the parent that starts trials and records what they measured."""
