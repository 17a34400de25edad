"""Servers that are started, stopped and killed for one trial, and the options that all of them have."""
