"""Models small enough to run, each as PyTorch runs it and as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from unittest import mock

import torch
import transformers
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from examples.models.gpt_unfused import Gpt
from examples.models.gpt_unfused import Sizes as GptSizes
from examples.models.latent_attention import LatentModel
from examples.models.latent_attention import Sizes as LatentSizes
from meshwright.capture import capture_hf, capture_module, interpret
from meshwright.schema import Graph
from tests.capture.as_written import attention_as_written
from tests.capture.fused_kernels import as_on_devices, rms_norm

T = torch.Tensor
BATCH, SEQ = 2, 256


@dataclass(frozen=True)
class Case:
    """module: with its parameters. inputs: of one microbatch. loss: of a forward pass. recompute:
    the policy by which it keeps what it does."""

    graph: Graph
    module: nn.Module
    inputs: Mapping[str, T]
    loss: Callable[[], T]
    recompute: Literal["none", "full"] = "none"

    def by_ops(self) -> T:
        """The loss, op by op: nothing is kept alive by the names of Python functions."""
        module = self.module
        own = {**dict(module.named_parameters()), **dict(module.named_buffers()), **self.inputs}
        with next(module.parameters()).device:
            return by_ops(self.graph, own)

    @property
    def dtype(self) -> str:
        return str(next(self.module.parameters()).dtype).removeprefix("torch.")

    @property
    def lasting(self) -> list[T]:
        """What is there all the time, gradients but for those that a first step makes."""
        own = list(self.module.parameters())
        given = [p.grad for p in own if p.grad is not None]
        return [*own, *given, *self.module.buffers(), *self.inputs.values()]


def gpt(*, vocabulary: int, dtype: str = "float32", layers: int = 2) -> Case:
    """Attention written out, dropout, a tied table."""
    sizes = GptSizes(16, 512, layers, 1, 1, BATCH, sequence=SEQ, vocabulary=vocabulary)
    return _plain(lambda: Gpt(sizes, layers), dtype)


def gpt_in_segments(*, vocabulary: int) -> Case:
    """Every layer is done again in the backward pass."""
    case = gpt(vocabulary=vocabulary, layers=4)
    assert isinstance(case.module, Gpt)
    for layer in case.module.layers:
        layer.forward = partial(  # type: ignore[assignment]  # the same call
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )
    return replace(case, recompute="full")


def latent(*, vocabulary: int, dtype: str = "float32") -> Case:
    """One sequence: for several torch.matmul copies a factor that they share."""
    sizes = LatentSizes(512, 8, 64, 32, 256, vocabulary, 2)
    return _plain(lambda: LatentModel(sizes), dtype, batch=1)


def llama(*, vocabulary: int, dtype: str = "float32") -> Case:
    return _hugging_face("LlamaForCausalLM", "llama", vocabulary, dtype, num_key_value_heads=4)


def bert(*, vocabulary: int) -> Case:
    return _hugging_face("BertForMaskedLM", "bert", vocabulary)


def mixtral(*, vocabulary: int, dtype: str = "float32") -> Case:
    """Its graph, op by op: experts with a fixed number of slots, as no module of PyTorch has."""
    found = _hugging_face(
        "MixtralForCausalLM", "mixtral", vocabulary, dtype, num_key_value_heads=4,
        num_local_experts=4, num_experts_per_tok=2, sliding_window=None,
    )  # fmt: skip
    return replace(found, loss=found.by_ops)


def by_ops(graph: Graph, values: Mapping[str, T]) -> T:
    """The loss of a graph, where a value is let go of behind its last reader."""
    last = {name: place for place, op in enumerate(graph.ops) for name in op.inputs}
    made = dict(values)
    for place, op in enumerate(graph.ops):
        own = {*op.inputs, *op.outputs}
        one = graph.model_copy(
            update={
                "tensors": tuple(t for t in graph.tensors if t.name in own),
                "ops": (op,),
                "outputs": op.outputs,
                "loss": None,
            }
        )
        made |= interpret(one, {name: made[name] for name in op.inputs}, slots="stated")
        for name in own:
            if last.get(name, -1) <= place and name != graph.loss:
                del made[name]
    assert graph.loss is not None
    return made[graph.loss]


@contextmanager
def one_kernel_each() -> Iterator[None]:
    """Norms that transformers writes out, as the graph and devices have them."""

    def norm(self: Any, x: T) -> T:
        return rms_norm(x, self.weight, self.variance_epsilon)

    with as_on_devices(), mock.patch.object(LlamaRMSNorm, "forward", norm):
        yield


def _plain(build: Callable[[], nn.Module], dtype: str, batch: int = BATCH) -> Case:
    """Without values: sizes alone count."""
    with torch.device("meta"):
        module = build().to(getattr(torch, dtype))
        inputs = {
            name: torch.zeros(batch, SEQ, dtype=torch.long, device="meta")
            for name in ("ids", "labels")
        }
    with attention_as_written():
        graph = capture_module(
            module,
            lambda given: {
                name: torch.zeros(given["batch"], SEQ, dtype=torch.long, device="meta")
                for name in inputs
            },
            symbols={"batch": batch},
            name="plain",
        )
    return Case(graph, module, inputs, lambda: module(**inputs))


def _hugging_face(
    head: str, family: str, vocabulary: int, dtype: str = "float32", **own: Any
) -> Case:
    config = {
        "architectures": [head], "model_type": family, "dtype": dtype, "vocab_size": vocabulary,
        "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2,
        "num_attention_heads": 16, "max_position_embeddings": SEQ, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0, **own,
    }  # fmt: skip
    graph = capture_hf(config, batch=BATCH, seq=SEQ, name=family)
    built = transformers.AutoConfig.for_model(**config)
    for field in list(vars(built)):
        if "drop" in field and isinstance(getattr(built, field), float):
            setattr(built, field, 0.0)
    built.use_cache = False
    module = getattr(transformers, head)._from_config(
        built, dtype=getattr(torch, dtype), attn_implementation="sdpa"
    )
    module.train()
    inputs = {name: torch.randint(0, vocabulary, (BATCH, SEQ)) for name in ("input_ids", "labels")}
    return Case(graph, module, inputs, lambda: module(**inputs).loss)
