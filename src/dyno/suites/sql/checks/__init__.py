"""Checks of the answers to own SQL."""
