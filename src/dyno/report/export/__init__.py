"""Exports a run as JSON, CSV, Parquet and Markdown."""
