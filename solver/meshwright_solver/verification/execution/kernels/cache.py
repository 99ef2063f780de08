"""Key and value caches, attention that reads them, and its relatives.

Made-up numbers of slots and lengths come round again where they point beyond what there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.attention import turned
from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, reduced_to
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient
from meshwright_solver.verification.execution.kernels.softmax import softmax_of

Gradients = tuple[Array | None, ...]


def _table(table: Array) -> Array:
    """[b, s, d] or [s, d] beside [b, h, s, d]."""
    return table[:, None] if table.ndim == 3 else table


def _rotary_pair(call: KernelCall) -> list[Array]:
    cos, sin = (_table(own) for own in call.inputs[2:4])
    return [x * cos + turned(x) * sin for x in call.inputs[:2]]


def _rotary_pair_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    tables = [_table(own) for own in call.inputs[2:4]]
    cos, sin = tables
    pairs = list(zip(call.inputs[:2], sent, strict=True))
    by_tables = [
        np.sum([reduced_to(own.shape, g * x) for x, g in moved], axis=0).reshape(given.shape)
        for own, given, moved in (
            (cos, call.inputs[2], pairs),
            (sin, call.inputs[3], [(turned(x), g) for x, g in pairs]),
        )
    ]
    return *(g * cos - turned(g * sin) for g in sent), *by_tables


def _update_places(call: KernelCall) -> tuple[Array, Array]:
    """Sequence and row numbers [b, t] of what is written into a cache [b, h, s, d]."""
    batch, _, length, _ = call.x.shape
    rows = call.inputs[1].shape[2]
    start = np.broadcast_to(call.inputs[2].reshape(-1), (batch,)).astype(np.int64)
    return np.arange(batch)[:, None], (start[:, None] + np.arange(rows)) % length


def _kv_update(call: KernelCall) -> Array:
    batch, rows = _update_places(call)
    made = call.x.copy()
    made[batch, :, rows] = np.swapaxes(call.inputs[1], 1, 2)
    return made


def _kv_update_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    batch, rows = _update_places(call)
    kept = sent[0].copy()
    kept[batch, :, rows] = 0.0
    return kept, np.swapaxes(sent[0][batch, :, rows], 1, 2)


def _reshape_and_cache(call: KernelCall) -> list[Array]:
    """Negative slots are rows that are padding."""
    slots = call.inputs[4].reshape(-1).astype(np.int64)
    made = []
    for rows, cache in zip(call.inputs[:2], call.inputs[2:4], strict=True):
        flat = cache.reshape(-1, *cache.shape[2:]).copy()
        flat[slots[slots >= 0] % len(flat)] = rows.reshape(-1, *cache.shape[2:])[slots >= 0]
        made.append(flat.reshape(cache.shape))
    return made


def _paged_attention(call: KernelCall) -> Array:
    keys, values, tables, lengths = call.inputs[1:5]
    mask = call.optional(5)
    blocks, _, groups, width = keys.shape
    batch = len(tables)
    query = call.x.reshape(batch, groups, -1, width)
    scale = call.number("scale", width**-0.5)
    made = np.zeros(query.shape)
    for b in range(batch):
        taken = tables[b].astype(np.int64) % blocks
        k, v = (own[taken].reshape(-1, groups, width) for own in (keys, values))
        scores = np.einsum("grd,lgd->grl", query[b], k) * scale
        if mask is not None:
            heads = np.broadcast_to(mask[b % len(mask)], (groups * query.shape[2], len(k)))
            scores = scores + heads.reshape(scores.shape)
        length = (int(lengths[b]) - 1) % len(k) + 1
        weights = softmax_of(scores[..., :length], -1)
        made[b] = np.einsum("grl,lgd->grd", weights, v[:length])
    return made.reshape(call.shape)


def _states(call: KernelCall) -> tuple[Array, Array]:
    """Sums of weighed values and of weights before each step and behind the last [t + 1, b, c].

    a' = exp(w) a + exp(k) v and b' = exp(w) b + exp(k), without the running maximum that keeps
    them small on a device: sizes are small here.
    """
    w, _, k, v, sp, sq, sm = call.inputs
    a, b = [sp * np.exp(sm)], [sq * np.exp(sm)]
    for t in range(k.shape[1]):
        a.append(np.exp(w) * a[-1] + np.exp(k[:, t]) * v[:, t])
        b.append(np.exp(w) * b[-1] + np.exp(k[:, t]))
    return np.stack(a), np.stack(b)


def _wkv(call: KernelCall) -> list[Array]:
    """y = (a + exp(u + k) v) / (b + exp(u + k)); states come out over exp of their maximum."""
    w, u, k, v, _, _, sm = call.inputs
    a, b = _states(call)
    own = np.exp(u + k)
    y = (np.swapaxes(a[:-1], 0, 1) + own * v) / (np.swapaxes(b[:-1], 0, 1) + own)
    largest = sm
    for t in range(k.shape[1]):
        largest = np.maximum(largest + w, k[:, t])
    return [y, a[-1] / np.exp(largest), b[-1] / np.exp(largest), largest]


def _wkv_gradients(call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    """Through y alone, backward through time; states that come out give no gradient."""
    w, u, k, v, sp, sq, sm = call.inputs
    a, b = _states(call)
    y, g = outputs[0], sent[0]
    da, db = np.zeros(sp.shape), np.zeros(sp.shape)
    dw, du, dk, dv = np.zeros(w.shape), np.zeros(u.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in reversed(range(k.shape[1])):
        own, here = np.exp(u + k[:, t]), np.exp(k[:, t])
        # what comes from the next step, through this step's weight and value
        dk[:, t] += (da * v[:, t] + db) * here
        dv[:, t] += da * here
        dw += ((da * a[t] + db * b[t]) * np.exp(w)).sum(axis=0)
        da, db = da * np.exp(w), db * np.exp(w)
        # what comes from y
        share = g[:, t] / (b[t] + own)
        by_own = share * (v[:, t] - y[:, t]) * own
        du += by_own.sum(axis=0)
        dk[:, t] += by_own
        dv[:, t] += share * own
        da, db = da + share, db - share * y[:, t]
    start = np.exp(sm)
    return dw, du, dk, dv, da * start, db * start, (da * sp + db * sq) * start


def _scan_terms(call: KernelCall) -> tuple[Array, Array, Array, Array]:
    """Of every head: b and c [b, t, h, n], what is left of a state and what comes to it."""
    x, dt, a, b, c = call.inputs
    heads = x.shape[2] // b.shape[2]
    b, c = (np.repeat(own, heads, axis=2) for own in (b, c))
    left = np.exp(dt[..., None] * a)[:, :, :, None]
    return b, c, left, (dt[..., None] * x)[..., None] * b[:, :, :, None]


def _scan_states(left: Array, come: Array) -> Array:
    """The state before the first step and after each [t + 1, b, h, p, n]."""
    states = [np.zeros_like(come[:, 0])]
    for t in range(come.shape[1]):
        states.append(left[:, t] * states[-1] + come[:, t])
    return np.stack(states)


def _selective_scan(call: KernelCall) -> Array:
    _, c, left, come = _scan_terms(call)
    return np.asarray(np.einsum("tbhpn,bthn->bthp", _scan_states(left, come)[1:], c))


def _selective_scan_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Backward through time; `back` is the gradient of the state after step t."""
    x, dt, a, own_b, _ = call.inputs
    b, c, left, come = _scan_terms(call)
    states = _scan_states(left, come)
    groups = (*own_b.shape[:3], x.shape[2] // own_b.shape[2], own_b.shape[3])
    dx, ddt, da = np.zeros(x.shape), np.zeros(dt.shape), np.zeros(a.shape)
    db, dc = np.zeros(b.shape), np.zeros(c.shape)
    back = np.zeros_like(come[:, 0])
    for t in reversed(range(x.shape[1])):
        g = sent[0][:, t]
        dc[:, t] = np.einsum("bhp,bhpn->bhn", g, states[t + 1])
        back = back + g[..., None] * c[:, t, :, None]
        by_b = np.einsum("bhpn,bhn->bhp", back, b[:, t])
        dx[:, t] = dt[:, t, :, None] * by_b
        db[:, t] = np.einsum("bhpn,bhp->bhn", back, dt[:, t, :, None] * x[:, t])
        power = np.einsum("bhpn,bhpn->bhn", back, left[:, t] * states[t])
        ddt[:, t] = (by_b * x[:, t]).sum(axis=-1) + (power * a).sum(axis=-1)
        da += reduced_to(a.shape, (power * dt[:, t, :, None]).sum(axis=0))
        back = left[:, t] * back
    return dx, ddt, da, db.reshape(groups).sum(axis=3), dc.reshape(groups).sum(axis=3)


def _blocks(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1, x.shape[-1])


def _global_rows(length: int, count: int) -> Array:
    """The rows that all may see: the last quarter of each of `count` blocks."""
    rows = np.arange(length).reshape(count, -1)
    return rows[:, rows.shape[1] - rows.shape[1] // 4 :].reshape(-1)


def _block_scores(call: KernelCall) -> list[Array]:
    """local[i, j] = q_i k_j in a block, global[j, i] = k_j q_i, plus the masks."""
    q, k, local_mask, global_mask = call.inputs
    count = len(local_mask)
    local = np.einsum("bhnsd,bhntd->bhnst", _blocks(q, count), _blocks(k, count))
    seen = k[:, :, _global_rows(k.shape[2], count)]
    return [local + local_mask, np.einsum("bhgd,bhld->bhgl", seen, q) + global_mask]


def _block_scores_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    q, k, local_mask, global_mask = call.inputs
    count = len(local_mask)
    rows = _global_rows(k.shape[2], count)
    local, whole = sent
    by_q = np.einsum("bhnst,bhntd->bhnsd", local, _blocks(k, count)).reshape(q.shape)
    by_k = np.einsum("bhnst,bhnsd->bhntd", local, _blocks(q, count)).reshape(k.shape)
    by_q = by_q + np.einsum("bhgl,bhgd->bhld", whole, k[:, :, rows])
    by_k[:, :, rows] += np.einsum("bhgl,bhld->bhgd", whole, q)
    return (
        by_q,
        by_k,
        reduced_to((1, 1, *local_mask.shape), local).reshape(local_mask.shape),
        reduced_to((1, 1, *global_mask.shape), whole).reshape(global_mask.shape),
    )


def _block_mix(call: KernelCall) -> Array:
    local, whole, v = call.inputs
    count = local.shape[2]
    made = np.einsum("bhnst,bhntd->bhnsd", local, _blocks(v, count)).reshape(v.shape)
    seen = v[:, :, _global_rows(v.shape[2], count)]
    return np.asarray(made + np.einsum("bhgl,bhgd->bhld", whole, seen))


def _block_mix_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    local, whole, v = call.inputs
    count = local.shape[2]
    rows = _global_rows(v.shape[2], count)
    g = _blocks(sent[0], count)
    by_v = np.einsum("bhnst,bhnsd->bhntd", local, g).reshape(v.shape)
    by_v[:, :, rows] += np.einsum("bhgl,bhld->bhgd", whole, sent[0])
    return (
        np.einsum("bhnsd,bhntd->bhnst", g, _blocks(v, count)),
        np.einsum("bhld,bhgd->bhgl", sent[0], v[:, :, rows]),
        by_v,
    )


CACHE: Mapping[str, OpKernel] = {
    "rotary_pair": OpKernel(_rotary_pair, _rotary_pair_gradients),
    "kv_update": OpKernel(_kv_update, _kv_update_gradients),
    "reshape_and_cache": OpKernel(_reshape_and_cache, no_gradient),
    "paged_attention": OpKernel(_paged_attention, no_gradient),
    "selective_scan": OpKernel(_selective_scan, _selective_scan_gradients),
    "wkv": OpKernel(_wkv, _wkv_gradients),
    "block_scores": OpKernel(_block_scores, _block_scores_gradients),
    "block_mix": OpKernel(_block_mix, _block_mix_gradients),
}
