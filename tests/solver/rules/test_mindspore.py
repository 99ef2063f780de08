"""MindSpore's vocabulary: every operator is a kind with a rule, a kernel and a case."""

from __future__ import annotations

from collections import Counter

import pytest

from meshwright.schema import RuleError
from meshwright_solver.rules import FAMILIES, KINDS
from meshwright_solver.rules.mindspore import OPERATORS, operator
from meshwright_solver.verification.execution.kernels import KERNELS
from tests.solver.verification.execution.all_cases import ALL
from tests.solver.verification.execution.test_kernels import NOT_EXECUTABLE

# what MindSpore 2.7.0 registers, by family, and what 2.10.0 adds
COUNTS = {
    "Element-wise, unary": 92,
    "Element-wise, broadcasting": 64,
    "Matrix products": 12,
    "Attention, position embedding, KV cache": 13,
    "FFN and mixture of experts": 8,
    "Normalisation": 6,
    "Convolution, pooling, vision": 17,
    "Reductions, sorting, losses": 25,
    "Gather, scatter, embedding": 27,
    "Shape and layout": 17,
    "Creation, random, one-hot": 11,
    "FFT and DCT": 24,
    "Quantisation": 9,
    "Structure and fallback": 11,
    "New in 2.10.0": 12,
}


def test_all_348_operators_have_a_kind_with_a_rule() -> None:
    assert len(OPERATORS) == 336 + 12
    assert Counter(own.family for own in OPERATORS.values()) == COUNTS
    for own in OPERATORS.values():
        kinds = {own.kind, *(own.decided_by[1].values() if own.decided_by else ())}
        assert kinds <= set(KINDS), own.name


def test_every_kind_stands_in_one_family_and_has_a_kernel_and_a_case() -> None:
    assert sum(len(family) for family in FAMILIES.values()) == len(KINDS)
    cases = {kind for kind, *_ in ALL}
    for kind in KINDS:
        if kind not in NOT_EXECUTABLE:
            assert kind in KERNELS, kind
            assert kind in cases, kind


@pytest.mark.parametrize(
    ("name", "given", "kind", "implied"),
    [
        ("AddExt", {}, "add", {}),
        ("IFFT2", {}, "fft", {"dims": [-2, -1], "inverse": True}),
        ("IHFFTN", {}, "ihfft", {}),
        ("TensorScatterMax", {}, "scatter_nd", {"reduce": "max"}),
        ("ScatterUpdate", {}, "scatter_rows", {"reduce": "update"}),
        ("ZerosLike", {}, "full_like", {"value": 0}),
        ("InplaceSub", {}, "index_add", {"dim": 0, "alpha": -1}),
        ("Activation", {"activation_type": "relu6"}, "relu6", {}),
        ("DivMod", {}, "div", {}),
        ("DivMod", {"rounding_mode": "floor"}, "floor_div", {}),
        ("Convolution", {"transposed": True}, "conv_transpose", {}),
    ],
)
def test_a_name_says_the_kind_and_its_attributes(name, given, kind, implied):
    assert operator(name).kind_for(given) == kind
    assert operator(name).attrs == implied


def test_what_nobody_knows_is_refused_with_what_is_like_it():
    with pytest.raises(RuleError, match="Similar names are MatMulExt"):
        operator("MatMulExtt")
    with pytest.raises(RuleError, match=r"activation_type is 'swish'\. Use 'relu'"):
        operator("Activation").kind_for({"activation_type": "swish"})
