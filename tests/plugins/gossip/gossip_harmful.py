"""A test engine, not a real one: it can't be imported, and says so in a way that does harm."""

raise ImportError("\x1b[31mred \u202egnp.exe \udc80 [/red]")
