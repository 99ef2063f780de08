"""Norms along sharded dims equal the interpreter's where one rank has all parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from meshwright.capture.interpreter.layers import KERNELS
from meshwright.capture.interpreter.run import TorchOpCall
from meshwright.runtime.sharded_statistics import STATISTICS
from meshwright.runtime.torch.arrays import TorchArrays
from meshwright.schema import Op


@pytest.mark.parametrize(
    ("kind", "inputs", "attrs"),
    [
        ("rms_norm", 2, {}),
        ("rms_norm", 1, {}),
        ("rms_norm", 2, {"weight_offset": 1.0}),
        ("rms_norm", 2, {"weight_offset": 1.0, "compute": torch.float64}),
        ("layer_norm", 1, {}),
        ("layer_norm", 3, {}),
    ],
)
def test_a_norm_of_all_parts_is_the_norm(kind: str, inputs: int, attrs: dict[str, Any]) -> None:
    torch.manual_seed(0)
    values = [torch.randn(2, 3, 8), torch.randn(8), torch.randn(8)][:inputs]
    names = tuple("abc"[:inputs])
    call = TorchOpCall(
        op=Op(name="norm", kind=kind, inputs=names, outputs=("y",)),
        inputs=values,
        attrs={"dims": 1, "eps": 1e-5, **attrs},
        shapes=[(2, 3, 8)],
        dtypes=[torch.float32],
    )
    found = STATISTICS[kind](TorchArrays(), call, lambda x, _how: x, 1)
    torch.testing.assert_close(found, KERNELS[kind](call), rtol=1e-4, atol=1e-5)
