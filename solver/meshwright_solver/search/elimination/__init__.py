"""Exact search by min-sum variable elimination over shared tables."""
