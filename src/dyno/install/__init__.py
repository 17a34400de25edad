"""Installs what engines need: `dyno install`."""
