"""The JAX runtime: exact execution on local shards, or sharding constraints for XLA."""

from meshwright.runtime.jax.hlo import CompiledCollective, collectives_of
from meshwright.runtime.jax.parallelize import parallelize
from meshwright.runtime.jax.sharded import Sharded

__all__ = ["CompiledCollective", "Sharded", "collectives_of", "parallelize"]
