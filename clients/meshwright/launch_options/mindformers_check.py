"""A written MindFormers YAML against its plan: what the options state, and sizes that they refuse.

The text is read again, so that an export that states other degrees than the plan's fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from meshwright.launch_options.yaml_text import options_of
from meshwright.schema import Graph, Plan, Setup
from meshwright.schema.uniform_degrees import Uniform


def check(
    text: str, plan: Plan, graph: Graph, setup: Setup | None, uniform: Uniform
) -> Iterator[str]:
    """The differences of the text from the plan, and the sizes that the options refuse."""
    yield from differences(text, plan, uniform)
    yield from refused_sizes(graph, setup, uniform)


def differences(text: str, plan: Plan, uniform: Uniform) -> Iterator[str]:
    """The options of the text that state something else than the plan."""
    try:
        options = _Options(options_of(text))
        stated = dict(options.stated(sum(uniform.layers)))
    except (KeyError, ValueError, SyntaxError, TypeError, IndexError) as failure:
        yield f"the written YAML cannot be read: {failure}"
        return
    for name, value in _planned(plan, uniform).items():
        if stated[name] != value:
            yield f"the written YAML states {name} {stated[name]}, the plan has {value}"


def refused_sizes(graph: Graph, setup: Setup | None, uniform: Uniform) -> Iterator[str]:
    """The sizes of a model that the degrees do not divide."""
    symbols = {**graph.symbols, **(setup.symbols if setup is not None else {})}
    shapes = graph.instantiate(symbols)
    degrees = uniform.degrees
    seen: set[tuple[str, int, int]] = set()
    for op in graph.ops:
        sizes: list[tuple[str, int, int]] = []
        if op.kind == "embedding" and degrees.tp > 1 and uniform.padded_vocabulary is None:
            table = shapes[op.inputs[0]]
            sizes = [("vocabulary", table[0], degrees.tp), ("hidden size", table[-1], degrees.tp)]
        elif op.kind == "attention" and len(shapes[op.inputs[0]]) == 4:
            sizes = [("attention heads", shapes[op.inputs[0]][1], degrees.tp)]
        elif op.kind == "expert_matmul":
            sizes = [("experts", shapes[op.inputs[1]][0], degrees.ep)]
        for what, size, ways in sizes:
            if size % ways and (what, size, ways) not in seen:
                seen.add((what, size, ways))
                option = "expert_parallel" if what == "experts" else "model_parallel"
                yield (
                    f"{size} {what} of op {op.name!r}: {option} {ways} does not divide them. Use a "
                    f"divisor of {size}"
                )
    if uniform.sequence is not None and degrees.sequence_parallel:
        ways = degrees.tp * degrees.cp
        if uniform.sequence % ways:
            yield (
                f"a sequence of {uniform.sequence}: use_seq_parallel cuts it into {ways} parts. "
                f"Use a multiple of {ways}"
            )


class _Options:
    """The options of a text, by section."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.config = options["parallel_config"]
        self.parallel = options["parallel"]
        self.runner = options["runner_config"]
        self.model = options.get("model", {}).get("model_config", {})
        self.recompute = options["recompute_config"]
        self.copies = options.get("micro_batch_interleave_num", 1)

    def stated(self, layers: int) -> Iterator[tuple[str, object]]:
        """Names and values; layers: those of the model, which the model's own options state."""
        config, ranks = self.config, self.config["pipeline_stage"]
        for name in (
            "data_parallel", "model_parallel", "context_parallel", "expert_parallel",
            "pipeline_stage", "use_seq_parallel",
        ):  # fmt: skip
            yield name, config[name]
        yield (
            "devices",
            config["data_parallel"] * config["model_parallel"] * config["context_parallel"] * ranks,
        )
        accumulated = self.runner.get("gradient_accumulation_steps", 1) * self.copies
        microbatches = config["micro_batch_num"] if ranks > 1 else accumulated
        yield "microbatches", microbatches
        yield "batch", self.runner["batch_size"] * microbatches * config["data_parallel"]
        stages = ranks * self.model.get("pp_interleave_num", 1)
        yield "stages", stages
        offsets = _flat(self.model.get("offset", [0] * stages))
        mean, rest = divmod(layers, stages)
        is_whole = sum(offsets) == rest and len(offsets) == stages
        yield "layers", [mean + offset for offset in offsets] if is_whole else offsets
        yield "parallel_mode", self.parallel["parallel_mode"]
        yield "full_batch", self.parallel["full_batch"]
        yield "optimizer parallel", self._optimizer_devices()
        yield "recompute", self._recomputed()
        interleaved = self.parallel.get("pipeline_config", {})
        yield "pipeline_interleave", bool(interleaved.get("pipeline_interleave"))
        yield "zero_bubble_v", interleaved.get("pipeline_scheduler") == "zero_bubble_v"
        yield "copies", self.copies

    def _optimizer_devices(self) -> int:
        """The devices over which parameters are sharded."""
        if not self.parallel["enable_parallel_optimizer"]:
            return 1
        every = self.config["data_parallel"] * self.config["context_parallel"]
        sharding = self.parallel["parallel_optimizer_config"]
        return int(sharding.get("optimizer_weight_shard_size", every))

    def _recomputed(self) -> object:
        stated = self.recompute["recompute"]
        return stated if isinstance(stated, bool) else _flat(stated)


def _planned(plan: Plan, uniform: Uniform) -> dict[str, object]:
    """The same values by the plan; degrees are those of its layouts."""
    degrees = uniform.degrees
    ranks = 1 if plan.schedule is None else plan.schedule.ranks
    stages = len(plan.stages)
    counts = list(uniform.layers) or [0] * stages
    recomputed: object = uniform.recompute == "full"
    if recomputed and uniform.recomputed_layers is not None and uniform.layers:
        recomputed = [min(uniform.recomputed_layers, layers) for layers in uniform.layers]
    return {
        "data_parallel": degrees.dp or 1,
        "model_parallel": degrees.tp,
        "context_parallel": degrees.cp,
        "expert_parallel": degrees.ep,
        "pipeline_stage": ranks,
        "use_seq_parallel": degrees.sequence_parallel,
        "devices": ranks * plan.stages[0].mesh.size(plan.stages[0].mesh.names),
        "microbatches": plan.microbatches,
        "batch": uniform.microbatch_size * plan.microbatches * (degrees.dp or 1),
        "stages": stages,
        "layers": counts,
        "parallel_mode": 1,
        "full_batch": True,
        "optimizer parallel": uniform.zero_size if degrees.zero else 1,
        "recompute": recomputed,
        "pipeline_interleave": stages > ranks,
        "zero_bubble_v": plan.schedule is not None and plan.schedule.kind == "zb_v",
        "copies": uniform.copies,
    }


def _flat(numbers: Any) -> list[int]:
    """One number for each stage, of lists for each round."""
    return [
        number
        for entry in numbers
        for number in (entry if isinstance(entry, list | tuple) else [entry])
    ]
