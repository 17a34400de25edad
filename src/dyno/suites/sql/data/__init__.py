"""Tables and values that own SQL works on: generated, random or from files."""
