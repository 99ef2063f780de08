"""Rules of experts: routing of rows, the computation of the experts, and the way back.

Rows of an expert on another device count as zero, so experts can be sharded at the price of a
partial sum. Numbers that depend on all tokens (the expert of a token) are computed whole on every
device.
"""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known, names


def grouped_matmul(_: RuleInputs) -> Known:
    """Rows in runs of one expert each: x [m, k], weights [e, k, n], ends of the runs [e]."""
    return known("m k, e k n, g! -> m n", "matmul", linear=((0,), (1,)), flops="2*m*k*n")


def ffn(ports: RuleInputs) -> Known:
    """Two products with an activation between; the second product sums over the hidden dim.

    x [.., k], weights [k, f] and [f, n], or with a leading expert dim and the ends of each expert's
    rows [e]. Biases [f] and [n], or those of every expert, come last. The second bias keeps the
    hidden dim whole: it is added once.
    """
    experts = len(ports.inputs[1]) == 3
    biases = len(ports.inputs) - 3 - experts
    lead = " ".join(names("m", len(ports.inputs[0]) - 1))
    e, hidden = "e " * experts, "f!" if biases > 1 else "f"
    terms = [f"{lead} k!", f"{e}k! {hidden}", f"{e}{hidden} n"]
    terms += ["r!"] * experts + [f"{e}{hidden}", f"{e}n"][:biases]
    rows = "*".join(names("m", len(ports.inputs[0]) - 1))
    return known(
        f"{', '.join(terms)} -> {lead} n",
        "matmul",
        saves_inputs=(),
        flops=f"2*{rows}*f*(k+n)",
    )


def expert_tokens(_: RuleInputs) -> Known:
    """The cumulative number of rows of the experts: one count over all rows."""
    return known("m! -> e!", "memory", saves_inputs=(), flops=0)


def gating_top_k(ports: RuleInputs) -> Known:
    """Softmax over the experts and the best experts: weights, experts, and row numbers."""
    rest = ", m" * (len(ports.inputs) - 1)
    return known(f"m e!{rest} -> m k!, m k!, m k!", "memory", saves_inputs=(0,))


def init_routing(_: RuleInputs) -> Known:
    """Tokens in the order of their experts, and the numbers of that order."""
    return known("m! h^, m! k!, m! k! -> r! h^, r!, r!", "memory", saves_inputs=(1, 2), flops=0)


def finalize_routing(ports: RuleInputs) -> Known:
    """Expanded rows back to their tokens, weighted, with skips and the experts' biases."""
    skips = ["m h"] * (len(ports.inputs) - 5)
    terms = ["r! h", *skips, "e! h", "m k!", "(k! m)", "m k!"]
    return known(
        f"{', '.join(terms)} -> m h",
        "memory",
        linear=(tuple(range(len(skips) + 2)),),
        saves_inputs=tuple(i for i in range(len(terms)) if not 0 < i <= len(skips)),
        flops="3*m*k*h",
    )


def router(ports: RuleInputs) -> Known:
    """Slots for the choices of every sequence: dispatch (token by expert and slot) and combine."""
    rest = ", b s! k!" * (len(ports.inputs) - 1)
    return known(f"b s! k!{rest} -> b e! c!, b s! k!", "memory", saves_inputs=(), flops=0)


ROUTING: dict[str, Builder] = {
    "grouped_matmul": grouped_matmul,
    "ffn": ffn,
    "moe_expert_tokens": expert_tokens,
    "moe_gating_topk": gating_top_k,
    "moe_init_routing": init_routing,
    "moe_finalize_routing": finalize_routing,
    "topk_router": router,
    "topp_router": router,
}
