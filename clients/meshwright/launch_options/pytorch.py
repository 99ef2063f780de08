"""FSDP2 and context parallelism of PyTorch, as torchtitan, `fsdp2` and Accelerate have them."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.schema.uniform_degrees import Uniform


def shard_degree(uniform: Uniform) -> int:
    """The degree of sharding beside context parallelism; FSDP shards over it times cp."""
    dp = uniform.degrees.dp or 1
    if not uniform.degrees.zero:
        return 1
    return max(1, min(uniform.zero_size // uniform.degrees.cp, dp))


def uneven_shards(uniform: Uniform) -> Iterator[str]:
    """The message for shards that do not divide dp."""
    dp, shard = uniform.degrees.dp or 1, shard_degree(uniform)
    if dp % shard:
        yield f"shards over {shard} devices, which do not divide dp {dp}"


def other_shards(uniform: Uniform) -> Iterator[str]:
    """The message for ZeRO over other devices than FSDP shards over."""
    degrees, shard = uniform.degrees, shard_degree(uniform)
    if degrees.zero and shard * degrees.cp != uniform.zero_size:
        yield (
            f"shards over {uniform.zero_size} devices: its FSDP shards over {shard} of dp times cp "
            f"{degrees.cp}"
        )


def contiguous_sequences(uniform: Uniform) -> Iterator[str]:
    """The message for context parallelism without the order of sequences that PyTorch gives it."""
    if uniform.degrees.cp > 1 and not uniform.is_zigzag:
        yield (
            "sequences in contiguous parts: PyTorch's context parallelism gives every rank an "
            "early and a late chunk, which makes causal attention faster than in the plan "
            "(sequence_order zigzag)"
        )
