"""Plans carried out by PyTorch's own parts: `fully_shard`, `parallelize_module`, checkpoints."""

from meshwright.runtime.torch.fsdp2.trained_module import TrainedModule

__all__ = ["TrainedModule"]
