"""A fault-injecting test engine, not a real one: its import fails with an error of several lines."""

raise ImportError("libfaulty.so.7: cannot open shared object file\nsee https://faulty.example/install")
