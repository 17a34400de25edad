"""Runs a plan and writes its run file: the parent process starts trials and records their measurements."""
