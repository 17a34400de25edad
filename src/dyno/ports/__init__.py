"""Ports that two suites share: each stands here once, with its conformance check and its null engine's class."""
