"""Plans carried out in PyTorch: every op on local shards, with the plan's collectives."""

from meshwright.runtime.torch.parallelize import parallelize
from meshwright.runtime.torch.record import Ran, Record
from meshwright.runtime.torch.trained import Trained

__all__ = ["Ran", "Record", "Trained", "parallelize"]
