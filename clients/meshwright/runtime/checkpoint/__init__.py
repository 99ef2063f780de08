"""Checkpoints by rank, independent of a framework: shards, their writers and their readers."""
