"""Recompute: which ops are done again in the backward pass, block by block."""

from solver.recompute.policies import remade

__all__ = ["remade"]
