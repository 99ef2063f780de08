"""Strategies that spread from a few ops over a cost graph."""
