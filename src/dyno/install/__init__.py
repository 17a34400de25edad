"""Gets what an engine lacks. Nothing here is used while anything is measured, and no engine may be named here."""
