"""sysbench as an engine, and its and pgbench's database tests for other engines."""
