"""Recompute: which ops are done again in the backward pass, block by block."""

from meshwright_solver.stage.recompute.policies import remade

__all__ = ["remade"]
