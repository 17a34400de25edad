"""A run, or several, as one self-contained HTML page for a person who has to decide: `dyno report`."""
