"""Sharding rules of ops without a canonical kind: found by evaluation, or stated by the user."""
