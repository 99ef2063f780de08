"""Settings of traces of transformers models: as `capture_hf` has them."""

from __future__ import annotations

import sys
from typing import Any

import torch

from meshwright.runtime.torch.module_check.module_trace import TraceSettings
from meshwright.schema import Graph, MeshwrightError


def is_of_transformers(module: torch.nn.Module) -> bool:
    """Whether a module is a model of transformers."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


def transformers_settings(module: torch.nn.Module, graph: Graph) -> TraceSettings:
    """The settings with which `capture_hf` captures a model of this configuration."""
    # imports transformers
    from meshwright.capture.hf import numbers_of
    from meshwright.capture.hf_inputs import HeadInputs
    from meshwright.capture.selective_scan import scans_as_ops

    head: Any = type(module)
    config: Any = module.config
    parameter = next(module.parameters())
    limits = {}
    named = {}
    try:
        inputs = HeadInputs(head, config, parameter.dtype, batch=1, seq=graph.symbols.get("seq"))
        limits = dict(inputs.limits)
        named = {"return_loss": True} if inputs.is_contrastive else {}
    except (AttributeError, KeyError, TypeError, MeshwrightError):  # of another form
        pass
    return TraceSettings(
        limits,
        constants=tuple(numbers_of(config.to_dict())),
        named=named,
        patches=lambda: scans_as_ops(head),
        prepare=_prepare,
    )


def _prepare(module: torch.nn.Module) -> None:
    """Change a copy of a model as `capture_hf` builds it: no cache, attention as one op.

    Both leave the loss as it is.
    """
    from meshwright.capture.hf import attention_of

    implementation = attention_of(type(module))
    for part in module.modules():
        config: Any = getattr(part, "config", None)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        if hasattr(config, "_attn_implementation"):
            config._attn_implementation = implementation
