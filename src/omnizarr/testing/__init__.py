"""For people who test: suites that a store can run, and stores that record, fail or wait."""
