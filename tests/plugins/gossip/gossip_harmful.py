"""A test engine, not a real one: its import fails with an error that is harmful to terminals."""

raise ImportError("\x1b[31mred \u202egnp.exe \udc80 [/red]")
