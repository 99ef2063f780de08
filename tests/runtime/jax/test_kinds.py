"""Kinds mean in JAX what they mean in PyTorch: whole graphs of captured models, op by op."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from meshwright.capture import interpret
from meshwright.runtime.jax.kinds import call_of, results_of
from meshwright.schema import Op
from tests.runtime.models import MODELS

ROWS = 4
OF_TORCH = ("own ops", "long convolution")  # with operators that JAX has no kernel for


@pytest.mark.rotating
@pytest.mark.parametrize("name", [name for name in MODELS if name not in OF_TORCH])
def test_every_op_makes_what_it_makes_in_pytorch(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]
    graph, module = model.graph(ROWS), model.build().double()
    held = {**dict(module.named_parameters()), **dict(module.named_buffers()), **model.batch(ROWS)}
    wanted = interpret(graph, held, dtypes=dict.fromkeys(("float32", "bfloat16"), torch.float64))
    dtypes = {t.name: t.dtype for t in graph.tensors}
    replaced = dict.fromkeys(("float32", "bfloat16"), "float64")
    with jax.enable_x64(True):
        for op in graph.ops:
            made = results_of(
                call_of(
                    op,
                    [jnp.asarray(wanted[own].detach().numpy()) for own in op.inputs],
                    shapes=[tuple(wanted[own].shape) for own in op.outputs],
                    dtypes=[dtypes[own] for own in op.outputs],
                    sizes=graph.symbols,
                    replaced=replaced,
                )
            )
            for own, result in zip(op.outputs, made, strict=True):
                expected = wanted[own].detach().numpy()
                np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-12, err_msg=own)


def test_dropped_tokens_are_logged_where_the_program_drops_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def dropped(factor: float) -> list[str]:
        attrs = {"capacity_factor": factor}
        op = Op(
            name=f"at {factor}", kind="moe_dispatch", inputs=("x", "i"), outputs=("y",), attrs=attrs
        )
        call = partial(
            call_of, op, shapes=[(2, 1, 2, 3)], dtypes=["float32"], sizes={}, replaced={}
        )
        run = jax.jit(lambda *inputs: results_of(call(inputs)))
        caplog.clear()
        run(jnp.ones((1, 4, 3)), jnp.zeros((1, 4, 1), jnp.int32))
        jax.effects_barrier()
        return [record.getMessage() for record in caplog.records]

    (message,) = dropped(1.0)
    assert message.startswith("op 'at 1.0' drops 2 tokens")
    assert dropped(1.25) == []
