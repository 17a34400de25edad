"""Contracts between Dyno's parts: what engines and suites declare, and the types that all parts share."""
