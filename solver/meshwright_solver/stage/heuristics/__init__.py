"""Heuristic engines: recursive programming, axis by axis, and sharding propagation."""
