"""Lowering: a planning problem on a mesh as a cost graph."""
