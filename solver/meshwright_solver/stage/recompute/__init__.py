"""Activation recomputation: the ops of every block that the backward pass computes again."""

from meshwright_solver.stage.recompute.policies import remade

__all__ = ["remade"]
