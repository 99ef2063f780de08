"""What the judge says that a device holds of a sharded step is what PyTorch's own sharding holds.

A small Llama, cut by `parallelize_module` (DTensor) and `fully_shard` (FSDP2). Rank 0 runs alone,
in a process group whose collectives move nothing: sizes are all that counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

from meshwright.schema import Degrees, Plan, Setup
from tests.capture import live_models as models
from tests.capture.live_models import Case
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

T = torch.Tensor
WORDS = 512
# what PyTorch saves besides: both rotary tables of 256 positions x 16, which devices make anew
# from nothing in the judge's eyes, and the total weight of the loss
BESIDES = 2 * models.SEQ * 16 * 4 + 4
THRESHOLD = 64 * 1024  # bytes; of no more ZeRO leaves a parameter whole (`--optimizer-threshold`)
COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj",
           "mlp.up_proj")  # fmt: skip
ROWS = ("self_attn.o_proj", "mlp.down_proj")

STATED = {
    "tensor parallel": Degrees(tp=2),
    "tensor and sequence parallel": Degrees(tp=2, sequence_parallel=True),
    "data parallel, ZeRO-3": Degrees(dp=2, zero=3),
    "tensor and data parallel, ZeRO-3": Degrees(dp=2, tp=2, zero=3),
    "all of them": Degrees(dp=2, tp=2, zero=3, sequence_parallel=True),
}


@dataclass(frozen=True)
class Held:
    """Bytes on one device. activations: saved, at the end of the forward pass."""

    parameters: int
    optimizer: int
    activations: int


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Rank 0 of as many as the degrees need."""
    degrees = STATED[request.node.callspec.params["name"]]
    devices = (degrees.dp or 1) * degrees.tp
    distributed.init_process_group("fake", rank=0, world_size=devices, store=FakeStore())
    yield
    distributed.destroy_process_group()


@pytest.mark.rotating
@pytest.mark.parametrize("name", STATED)
def test_a_sharded_step_holds_what_torch_holds(name: str) -> None:
    degrees = STATED[name]
    case = models.llama(vocabulary=WORDS)
    memory = plan_of(case, degrees).cost.memory_bytes
    held = measured(case, degrees)
    assert memory.activations + BESIDES == held.activations
    whole = left_whole(case, degrees)
    assert memory.parameters == held.parameters + whole
    assert memory.optimizer == held.optimizer + 2 * whole


def plan_of(case: Case, degrees: Degrees) -> Plan:
    """One microbatch, of as many sequences for every device of dp as the module gets."""
    sizes = [size for size in (degrees.dp, degrees.tp) if size and size > 1]
    setup = Setup(
        microbatches=1,
        global_batch=models.BATCH * (degrees.dp or 1),
        gradient_dtype="float32",
        master_dtype=None,
        memory_reserve=0.0,
        execution="eager",
    )
    devices = topology(*sizes, memory_bytes=1 << 36)
    return planned(toy_request(graph=case.graph, topology=devices, setup=setup, degrees=degrees))


def measured(case: Case, degrees: Degrees) -> Held:
    module, sizes = case.module, (degrees.dp or 1, degrees.tp)
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp"))
    if degrees.tp > 1:
        _cut(module, mesh["tp"], in_sequence=degrees.sequence_parallel)
    if degrees.zero:
        for layer in module.model.layers:  # type: ignore[union-attr]  # a list of layers
            fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=True)
        fully_shard(module, mesh=mesh["dp"], reshard_after_forward=True)
    parameters = list(module.parameters())
    lasting = {_storage(own)._cdata for own in case.lasting}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: T) -> T:
        storage = _storage(tensor)
        if storage._cdata not in lasting:
            saved[storage._cdata] = storage
        return tensor

    positions = torch.arange(models.SEQ)[None]  # a rank with half of the rows would count anew
    with (
        models.one_kernel_each(),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept),
        loss_parallel() if degrees.tp > 1 else nullcontext(),
    ):
        loss = module(**case.inputs, position_ids=positions).loss
        # what FSDP gathered is empty again
        activations = sum(storage.nbytes() for storage in saved.values())
        loss.backward()
    optimizer = torch.optim.AdamW(parameters, foreach=False)
    optimizer.step()
    states = [own for state in optimizer.state.values() for own in state.values() if own.dim()]
    return Held(_bytes(parameters), _bytes(states), activations)


def _cut(module: torch.nn.Module, mesh: DeviceMesh, *, in_sequence: bool) -> None:
    """Megatron's pairs, the table by its rows and the head by its columns; in_sequence: norms and
    what lies between the pairs on their parts of the sequence."""
    rows, whole = Shard(1), Replicate()
    between = rows if in_sequence else whole
    styles: dict[str, ParallelStyle] = {
        "model.embed_tokens": RowwiseParallel(input_layouts=whole, output_layouts=between),
        "lm_head": ColwiseParallel(input_layouts=between, use_local_output=False),
    }
    for layer in ("model.layers.0.", "model.layers.1."):
        styles |= {layer + name: ColwiseParallel() for name in COLUMNS}
        styles |= {layer + name: RowwiseParallel(output_layouts=between) for name in ROWS}
        if in_sequence:
            styles[layer + "input_layernorm"] = SequenceParallel()
            styles[layer + "post_attention_layernorm"] = SequenceParallel()
            styles[layer + "self_attn"] = PrepareModuleInput(
                input_kwarg_layouts={"hidden_states": rows},
                desired_input_kwarg_layouts={"hidden_states": whole},
            )
            styles[layer + "mlp"] = PrepareModuleInput(
                input_layouts=rows, desired_input_layouts=whole
            )
    if in_sequence:
        styles["model.norm"] = SequenceParallel()
    parallelize_module(module, mesh, styles)


def left_whole(case: Case, degrees: Degrees) -> int:
    """What FSDP takes of parameters that are too small for ZeRO to shard."""
    if not degrees.zero:
        return 0
    cut = (*COLUMNS, *ROWS)
    found = 0
    for tensor in case.graph.tensors:
        if tensor.role == "parameter":
            size = 4 * int(torch.Size([int(n) for n in tensor.shape]).numel())
            if size <= THRESHOLD:
                ways = degrees.tp if any(name in tensor.name for name in cut) else 1
                found += size // ways // 2
    return found


def _storage(tensor: T) -> torch.UntypedStorage:
    own = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
    return own.untyped_storage()


def _bytes(tensors: Sequence[T]) -> int:
    """FSDP's shards lie in storages that are longer than they."""
    local = [own._local_tensor if isinstance(own, DTensor) else own for own in tensors]
    return sum(own.numel() * own.element_size() for own in local)
