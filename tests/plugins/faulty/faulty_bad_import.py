"""A fault-injecting test engine, not a real one: it can't be imported, and says so on more than one line."""

raise ImportError("libfaulty.so.7: cannot open shared object file\nsee https://faulty.example/install")
