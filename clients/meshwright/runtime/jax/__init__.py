"""Plans carried out in JAX: to the letter on local shards, or as advice to XLA."""

from meshwright.runtime.jax.hlo import Compiled, collectives_of
from meshwright.runtime.jax.parallelize import parallelize
from meshwright.runtime.jax.sharded import Sharded

__all__ = ["Compiled", "Sharded", "collectives_of", "parallelize"]
