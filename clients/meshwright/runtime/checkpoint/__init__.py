"""Checkpoints by rank, without a framework: who holds and writes what, and who reads what of it."""
