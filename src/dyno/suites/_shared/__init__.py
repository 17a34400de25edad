"""What workloads of several suites share. No suite may be named here."""
