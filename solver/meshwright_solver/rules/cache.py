"""Rules of key and value caches, of attention that reads them, and of recurrences."""

from __future__ import annotations

from meshwright_solver.rules.op_knowledge import Builder, Known, RuleInputs, known


def rotary_pair(ports: RuleInputs) -> Known:
    """Query and key rotated by one table; the heads that they do not share are whole."""
    heads = "(g r!)" if ports.inputs[0][1] != ports.inputs[1][1] else "g"
    batch = "b" if ports.inputs[2][0] != 1 else "1"
    table = f"{batch} s d!" if len(ports.inputs[2]) == 3 else "s d!"
    pair = f"b {heads} s d!, b g s d!"
    return known(
        f"{pair}, {table}, {table} -> {pair}", "memory", linear=((0, 1),), saves_inputs=(2, 3)
    )


def kv_update(ports: RuleInputs) -> Known:
    """New rows into a cache [b, h, s, d], from a place for each sequence or one for all.

    The op works in place: it writes these rows only. Attrs `whole`: they are all rows of the cache.
    """
    rows = "s" if ports.attrs.get("whole") else "t!"
    place = "b" if ports.inputs[2] == ports.inputs[0][:1] else "1"
    rest = ["1"] * (len(ports.inputs) - 3)
    return known(
        f"{', '.join([f'b h s d, b h {rows} d', place, *rest])} -> b h s d",
        "memory",
        in_place=True,
        linear=((0, 1),),
        saves_inputs=(2,),
        flops=0,
    )


def reshape_and_cache(ports: RuleInputs) -> Known:
    """Rows [t, heads * width] of keys and values into caches of blocks [n, p, g, d] by slot."""
    same = ports.inputs[2] == ports.inputs[3]
    k, v = ("d", "d") if same else ("d!", "e!")
    return known(
        f"t! (g {k}), t! (g {v}), n p g {k}, n p g {v}, t! -> n p g {k}, n p g {v}",
        "memory",
        saves_inputs=(),
        flops=0,
    )


def paged_attention(ports: RuleInputs) -> Known:
    """One row of the query for each sequence; keys and values come from a table of blocks.

    query [b, heads * width], caches [n, p, g, width], tables [b, m], lengths [b], optional mask
    [b, heads or 1, m * p].
    """
    lead = "b 1" if len(ports.inputs[0]) == 3 else "b"
    mask = ""
    if len(ports.inputs) > 5:
        b, heads, _ = ports.inputs[5]
        mask = f", {'1' if b == 1 else 'b'} {'1' if heads == 1 else '(g r)'} l!"
    blocks, block = ports.inputs[3][1], ports.inputs[1][1]
    return known(
        f"{lead} (g r d!), n! p! g d!, n! p! g d!, b m!, b{mask} -> {lead} (g r d!)",
        "attention",
        saves_inputs=(),
        flops=f"4*b*g*r*d*{blocks * block}",
        sparse_inputs=(1, 2),
    )


def wkv(_: RuleInputs) -> Known:
    """The recurrence of RWKV: every channel is independent, one step after the other."""
    rows, state = "b t! c", "b c"
    return known(
        f"c, c, {rows}, {rows}, {state}, {state}, {state} -> {rows}, {state}, {state}, {state}",
        "memory",
        flops="20*b*t*c",
    )


def selective_scan(ports: RuleInputs) -> Known:
    """Mamba's recurrence: state = exp(dt a) state + dt x b, y = sum over n of c state.

    x [b, t, h, p], dt [b, t, h], a [h, n or 1], b and c [b, t, g, n] -> y like x; h / g heads share
    their b and c. Six operations a state: two for the input, two for the decay, two for the output.
    """
    groups = ports.inputs[3][2]
    heads, shared = ("r", "1") if groups == 1 else ("(g r)", "g")
    decay = "1" if ports.inputs[2][1] == 1 else "n"
    state = f"b t! {shared} n"
    return known(
        f"b t! {heads} p, b t! {heads}, {heads} {decay}, {state}, {state} -> b t! {heads} p",
        "memory",
        linear=((0,), (3,), (4,)),
        flops=f"6*b*t*r*p*n{'' if groups == 1 else '*g'}",
    )


def gated_delta_rule(ports: RuleInputs) -> Known:
    """S = exp(decay) S, S = S + k (beta (v - S^T k))^T, y = S^T q with a state S [k, v] by head.

    query and key [b, t, g, k], value [b, t, h, v], decay [b, t, h] or [b, t, h, k], beta [b, t, h]
    -> y like value; h / g heads share query and key. Channels of v are independent. Seven
    operations for each element of a state: one for the decay, two for each product.
    """
    groups, heads = ports.inputs[1][2], ports.inputs[2][2]
    shared, each = ("1", "h") if groups == 1 else ("h", "h") if groups == heads else ("g", "(g r)")
    row = f"b t! {shared} k!"
    decay = f"b t! {each} k!" if len(ports.inputs[3]) == 4 else f"b t! {each}"
    count = "g*r" if each == "(g r)" else "h"
    return known(
        f"{row}, {row}, b t! {each} v, {decay}, b t! {each} -> b t! {each} v",
        "memory",
        linear=((0,), (2,)),
        flops=f"7*b*t*{count}*k*v",
    )


def linear_recurrence(_: RuleInputs) -> Known:
    """h = gate h + x for every channel, [b, t, c]; the backward pass needs the gate and every h."""
    rows = "b t! c"
    return known(
        f"{rows}, {rows} -> {rows}",
        "memory",
        linear=((0,),),
        saves_inputs=(1,),
        saves_outputs=(0,),
        flops="2*b*t*c",
    )


def block_scores(_: RuleInputs) -> Known:
    """Scores of fixed sparse attention: inside each block, and with the last quarter of all.

    query, key [b, h, n * s, d], masks [n, s, s] and [n * s / 4, n * s] -> [b, h, n, s, s] and
    [b, h, n * s / 4, n * s]
    """
    return known(
        "b h l! d!, b h l! d!, n! s! u!, g! l! -> b h n! s! u!, b h g! l!",
        "matmul",
        flops="2*b*h*d*(n*s*u+g*l)",
        saves_inputs=(0, 1),
    )


def block_mix(_: RuleInputs) -> Known:
    """Values by the weights of fixed sparse attention, [b, h, l, d] -> [b, h, l, d]."""
    return known(
        "b h n! s! u!, b h g! l!, b h l! d -> b h l! d",
        "matmul",
        linear=((0, 1), (2,)),
        flops="2*b*h*d*(n*s*u+g*l)",
    )


CACHE: dict[str, Builder] = {
    "rotary_pair": rotary_pair,
    "kv_update": kv_update,
    "reshape_and_cache": reshape_and_cache,
    "paged_attention": paged_attention,
    "wkv": wkv,
    "selective_scan": selective_scan,
    "gated_delta_rule": gated_delta_rule,
    "linear_recurrence": linear_recurrence,
    "block_scores": block_scores,
    "block_mix": block_mix,
}
