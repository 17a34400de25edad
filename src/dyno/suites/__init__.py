"""The suites that come with Dyno, one package each. `SUITE` in a package is the suite's declaration."""
