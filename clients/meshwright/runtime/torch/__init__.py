"""The PyTorch runtime: every op on local shards, with the plan's collectives."""

from meshwright.runtime.torch.collective_log import LoggedCollective, Record
from meshwright.runtime.torch.parallel_model import Trained
from meshwright.runtime.torch.parallelize import parallelize
from meshwright.runtime.torch.plan_module import plan

__all__ = ["LoggedCollective", "Record", "Trained", "parallelize", "plan"]
