"""MongoDB and FerretDB: engines, port and servers."""
