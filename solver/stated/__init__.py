"""Stated strategies: degrees of parallelism as restrictions of the search."""
