"""Parts that workloads of several suites share. Names no suite."""
