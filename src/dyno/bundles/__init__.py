"""Bundles: a run with its plan and its data in one file, which somebody else can verify and repeat."""
