"""sysbench as an engine; and the database tests of sysbench and pgbench, for other engines."""
