"""Cases: training steps on one GPU, each measured and predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.gpu.models import MODELS, Model
from meshwright.schema import Optimizer, Setup

Precision = Literal["autocast", "bfloat16", "float32"]
Policy = Literal["none", "full"]
Runner = Literal["module", "runtime"]


@dataclass(frozen=True, slots=True)
class Case:
    """A training step of a model.

    rows: samples of a microbatch. precision: `autocast` is bfloat16 with parameters in float32;
    others are the dtype of parameters, gradients and optimizer states. recompute: `full` is
    activation checkpointing of every layer. runner: the module itself, or the plan that
    `meshwright.parallelize` carries out.
    """

    model_name: str
    rows: int
    precision: Precision = "autocast"
    recompute: Policy = "none"
    execution: Literal["eager", "compiled"] = "eager"
    microbatches: int = 1
    runner: Runner = "module"

    @property
    def name(self) -> str:
        parts = [self.model_name, f"{self.microbatches}x{self.rows}", self.precision]
        parts += [] if self.recompute == "none" else [f"recompute-{self.recompute}"]
        parts += [self.execution] if self.runner == "module" else [self.runner]
        return "-".join(parts)

    @property
    def model(self) -> Model:
        return MODELS[self.model_name]

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return self.rows * self.microbatches

    @property
    def setup(self) -> Setup:
        dtype = "float32" if self.precision == "autocast" else self.precision
        return Setup(
            global_batch=self.batch,
            microbatches=self.microbatches,
            execution=self.execution,
            gradient_dtype=dtype,
            master_dtype=None,
            optimizer=Optimizer(state_dtype=dtype),
        )


# the most important first: a measurement may end early
STEPS = (
    Case("llama-1b", 1),
    Case("llama-1b", 2),
    Case("llama-1b", 2, recompute="full"),
    Case("gpt2-medium", 8),
    Case("gpt2-medium", 16),
    Case("gpt2-medium", 16, recompute="full"),
    Case("mixtral-0.9b", 4, "bfloat16"),
    Case("mixtral-0.9b", 8, "bfloat16"),
    Case("mixtral-0.9b", 8, "bfloat16", "full"),
    Case("bert-large", 16),
    Case("bert-large", 32),
    Case("bert-large", 32, recompute="full"),
    Case("vit-l16", 64),
    Case("llama-1b", 2, "bfloat16"),
    Case("llama-1b", 1, microbatches=4),
    Case("t5-base", 16, "bfloat16"),
    Case("resnet50", 128),
    Case("vit-l16", 128),
)
COMPILED = (
    Case("gpt2-medium", 16, execution="compiled"),
    Case("llama-1b", 2, execution="compiled"),
    Case("vit-l16", 64, execution="compiled"),
)
# equal to the module alone: losses and gradients of one step
EQUAL = (
    Case("llama-tiny", 2, "float32", runner="runtime"),
    Case("llama-tiny", 2, "float32", "full", microbatches=2, runner="runtime"),
    Case("llama-tiny", 2, runner="runtime"),
)
RUNTIME = (
    Case("llama-1b", 2, runner="runtime"),
    Case("llama-1b", 2, recompute="full", runner="runtime"),
    Case("gpt2-medium", 16, runner="runtime"),
    Case("mixtral-0.9b", 4, "bfloat16", runner="runtime"),
)
CASES = (*RUNTIME, *EQUAL, *STEPS, *COMPILED)
