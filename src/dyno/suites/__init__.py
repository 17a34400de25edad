"""The suites that come with Dyno, a folder each; `SUITE` in each is its declaration."""
