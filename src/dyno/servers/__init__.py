"""Servers that are started, stopped and killed for one trial, and the options that they have in common."""
