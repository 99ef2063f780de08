"""JAX functions -> Graph, without arrays."""

from meshwright.capture.jax.recipe import JaxRecipe, capture_jax

__all__ = ["JaxRecipe", "capture_jax"]
