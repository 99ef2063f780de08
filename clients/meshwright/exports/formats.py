"""Formats of exports: the title, the kind and the file name of each target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from meshwright.exports.exported import EveryTarget

Group = Literal["runtimes", "frameworks", "layouts", "graphs"]  # in the order of lists
MAX_STEM = 60  # chosen: characters of a graph's name in a file name


@dataclass(frozen=True, slots=True)
class Format:
    """The format of one target: what people call it, its group, and the end of its file's name."""

    title: str
    group: Group
    ending: str


FORMATS: Mapping[EveryTarget, Format] = {
    "megatron-core": Format("Megatron-LM", "frameworks", "sh"),
    "torchtitan": Format("torchtitan", "frameworks", "toml"),
    "fsdp2": Format("PyTorch FSDP2", "frameworks", "py"),
    "accelerate": Format("Accelerate", "frameworks", "yaml"),
    "deepspeed": Format("DeepSpeed", "frameworks", "json"),
    "mindformers": Format("MindFormers", "frameworks", "yaml"),
    "mindspore-network": Format("MindSpore network", "runtimes", "json"),
    "mindspore-strategies": Format("MindSpore strategies", "runtimes", "json"),
    "dtensor": Format("DTensor placements", "layouts", "json"),
    "jax": Format("JAX PartitionSpecs", "layouts", "json"),
    "mindspore": Format("MindSpore layouts", "layouts", "json"),
    "graphml": Format("GraphML", "graphs", "graphml"),
    "dot": Format("Graphviz DOT", "graphs", "dot"),
}


def file_name(graph_name: str, target: EveryTarget) -> str:
    """The name of the file of an export, which is safe in a shell and on every file system."""
    stem = re.sub(r"[^A-Za-z0-9_.]+", "-", graph_name)[:MAX_STEM].strip("-.") or "plan"
    return f"{stem}.{target}.{FORMATS[target].ending}"
