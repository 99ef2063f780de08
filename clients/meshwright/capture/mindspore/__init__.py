"""Capture of MindSpore networks as graphs, one op per operator, without weights."""
