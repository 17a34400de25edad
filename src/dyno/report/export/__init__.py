"""A run as JSON, CSV, Parquet and Markdown."""
