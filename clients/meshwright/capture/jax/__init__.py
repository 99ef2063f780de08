"""Capture of JAX functions as graphs, without arrays."""

from meshwright.capture.jax.from_factory import JaxRecipe, capture_jax

__all__ = ["JaxRecipe", "capture_jax"]
