"""Parts that workloads of several suites share. They depend on no suite."""
