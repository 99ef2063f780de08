"""Key and value caches, attention that reads them, and recurrences.

Slot numbers and lengths are random here; those beyond the end are taken modulo the size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshwright_solver.verification.execution.kernels.attention import rotate_half
from meshwright_solver.verification.execution.kernels.call import Array, KernelCall, reduced_to
from meshwright_solver.verification.execution.kernels.kernel import OpKernel, no_gradient
from meshwright_solver.verification.execution.kernels.softmax import softmax_of

Gradients = tuple[Array | None, ...]


def _table(table: Array) -> Array:
    """A table [b, s, d] or [s, d], to broadcast with [b, h, s, d]."""
    return table[:, None] if table.ndim == 3 else table


def _rotary_pair(call: KernelCall) -> list[Array]:
    cos, sin = (_table(table) for table in call.inputs[2:4])
    return [x * cos + rotate_half(x) * sin for x in call.inputs[:2]]


def _rotary_pair_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    tables = [_table(table) for table in call.inputs[2:4]]
    cos, sin = tables
    pairs = list(zip(call.inputs[:2], sent, strict=True))
    by_tables = [
        np.sum([reduced_to(table.shape, g * x) for x, g in moved], axis=0).reshape(
            table_input.shape
        )
        for table, table_input, moved in (
            (cos, call.inputs[2], pairs),
            (sin, call.inputs[3], [(rotate_half(x), g) for x, g in pairs]),
        )
    ]
    return *(g * cos - rotate_half(g * sin) for g in sent), *by_tables


def _update_places(call: KernelCall) -> tuple[Array, Array]:
    """Sequence and row numbers [b, t] of the rows written into a cache [b, h, s, d].

    Rows that are the whole cache begin at its first.
    """
    batch, _, length, _ = call.x.shape
    rows = call.inputs[1].shape[2]
    first = 0 * call.inputs[2] if call.attrs.get("whole") else call.inputs[2]
    start = np.broadcast_to(first.reshape(-1), (batch,)).astype(np.int64)
    return np.arange(batch)[:, None], (start[:, None] + np.arange(rows)) % length


def _kv_update(call: KernelCall) -> Array:
    batch, rows = _update_places(call)
    cache = call.x.copy()
    cache[batch, :, rows] = np.swapaxes(call.inputs[1], 1, 2)
    return cache


def _kv_update_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    batch, rows = _update_places(call)
    cache_gradient = sent[0].copy()
    cache_gradient[batch, :, rows] = 0.0
    return cache_gradient, np.swapaxes(sent[0][batch, :, rows], 1, 2)


def _reshape_and_cache(call: KernelCall) -> list[Array]:
    """Write rows into slots; rows with negative slots are padding."""
    slots = call.inputs[4].reshape(-1).astype(np.int64)
    caches = []
    for rows, cache in zip(call.inputs[:2], call.inputs[2:4], strict=True):
        flat = cache.reshape(-1, *cache.shape[2:]).copy()
        flat[slots[slots >= 0] % len(flat)] = rows.reshape(-1, *cache.shape[2:])[slots >= 0]
        caches.append(flat.reshape(cache.shape))
    return caches


def _paged_attention(call: KernelCall) -> Array:
    keys, values, tables, lengths = call.inputs[1:5]
    mask = call.optional(5)
    blocks, _, groups, width = keys.shape
    batch = len(tables)
    query = call.x.reshape(batch, groups, -1, width)
    scale = call.number("scale", width**-0.5)
    results = np.zeros(query.shape)
    for b in range(batch):
        taken = tables[b].astype(np.int64) % blocks
        k, v = (cache[taken].reshape(-1, groups, width) for cache in (keys, values))
        scores = np.einsum("grd,lgd->grl", query[b], k) * scale
        if mask is not None:
            heads = np.broadcast_to(mask[b % len(mask)], (groups * query.shape[2], len(k)))
            scores = scores + heads.reshape(scores.shape)
        length = (int(lengths[b]) - 1) % len(k) + 1
        weights = softmax_of(scores[..., :length], -1)
        results[b] = np.einsum("grl,lgd->grd", weights, v[:length])
    return results.reshape(call.shape)


def _states(call: KernelCall) -> tuple[Array, Array]:
    """Sums of weighted values and of weights, before each step and after the last [t + 1, b, c].

    a' = exp(w) a + exp(k) v and b' = exp(w) b + exp(k). Devices subtract a running maximum to keep
    them small; sizes are small here.
    """
    w, _, k, v, sp, sq, sm = call.inputs
    a, b = [sp * np.exp(sm)], [sq * np.exp(sm)]
    for t in range(k.shape[1]):
        a.append(np.exp(w) * a[-1] + np.exp(k[:, t]) * v[:, t])
        b.append(np.exp(w) * b[-1] + np.exp(k[:, t]))
    return np.stack(a), np.stack(b)


def _wkv(call: KernelCall) -> list[Array]:
    """y = (a + exp(u + k) v) / (b + exp(u + k)), and the states over exp of their maximum."""
    w, u, k, v, _, _, sm = call.inputs
    a, b = _states(call)
    bonus = np.exp(u + k)
    y = (np.swapaxes(a[:-1], 0, 1) + bonus * v) / (np.swapaxes(b[:-1], 0, 1) + bonus)
    largest = sm
    for t in range(k.shape[1]):
        largest = np.maximum(largest + w, k[:, t])
    return [y, a[-1] / np.exp(largest), b[-1] / np.exp(largest), largest]


def _wkv_gradients(call: KernelCall, outputs: Sequence[Array], sent: Sequence[Array]) -> Gradients:
    """Backward through time, from y alone; the final states have no gradient."""
    w, u, k, v, sp, sq, sm = call.inputs
    a, b = _states(call)
    y, g = outputs[0], sent[0]
    da, db = np.zeros(sp.shape), np.zeros(sp.shape)
    dw, du, dk, dv = np.zeros(w.shape), np.zeros(u.shape), np.zeros(k.shape), np.zeros(v.shape)
    for t in reversed(range(k.shape[1])):
        bonus, weight = np.exp(u + k[:, t]), np.exp(k[:, t])
        # the gradient of the next step, through this step's weight and value
        dk[:, t] += (da * v[:, t] + db) * weight
        dv[:, t] += da * weight
        dw += ((da * a[t] + db * b[t]) * np.exp(w)).sum(axis=0)
        da, db = da * np.exp(w), db * np.exp(w)
        # the gradient of y
        share = g[:, t] / (b[t] + bonus)
        by_bonus = share * (v[:, t] - y[:, t]) * bonus
        du += by_bonus.sum(axis=0)
        dk[:, t] += by_bonus
        dv[:, t] += share * bonus
        da, db = da + share, db - share * y[:, t]
    start = np.exp(sm)
    return dw, du, dk, dv, da * start, db * start, (da * sp + db * sq) * start


def _scan_terms(call: KernelCall) -> tuple[Array, Array, Array, Array]:
    """Of every head: b and c [b, t, h, n], the decay of a state, and the input of each step."""
    x, dt, a, b, c = call.inputs
    heads = x.shape[2] // b.shape[2]
    b, c = (np.repeat(array, heads, axis=2) for array in (b, c))
    decay = np.exp(dt[..., None] * a)[:, :, :, None]
    return b, c, decay, (dt[..., None] * x)[..., None] * b[:, :, :, None]


def _scan_states(decay: Array, added: Array) -> Array:
    """The state before the first step and after each [t + 1, b, h, p, n]."""
    states = [np.zeros_like(added[:, 0])]
    for t in range(added.shape[1]):
        states.append(decay[:, t] * states[-1] + added[:, t])
    return np.stack(states)


def _selective_scan(call: KernelCall) -> Array:
    _, c, decay, added = _scan_terms(call)
    return np.asarray(np.einsum("tbhpn,bthn->bthp", _scan_states(decay, added)[1:], c))


def _selective_scan_gradients(
    call: KernelCall, _outputs: Sequence[Array], sent: Sequence[Array]
) -> Gradients:
    """Backward through time; `back` is the gradient of the state after step t."""
    x, dt, a, b_input, _ = call.inputs
    b, c, decay, added = _scan_terms(call)
    states = _scan_states(decay, added)
    groups = (*b_input.shape[:3], x.shape[2] // b_input.shape[2], b_input.shape[3])
    dx, ddt, da = np.zeros(x.shape), np.zeros(dt.shape), np.zeros(a.shape)
    db, dc = np.zeros(b.shape), np.zeros(c.shape)
    back = np.zeros_like(added[:, 0])
    for t in reversed(range(x.shape[1])):
        g = sent[0][:, t]
        dc[:, t] = np.einsum("bhp,bhpn->bhn", g, states[t + 1])
        back = back + g[..., None] * c[:, t, :, None]
        by_b = np.einsum("bhpn,bhn->bhp", back, b[:, t])
        dx[:, t] = dt[:, t, :, None] * by_b
        db[:, t] = np.einsum("bhpn,bhp->bhn", back, dt[:, t, :, None] * x[:, t])
        power = np.einsum("bhpn,bhpn->bhn", back, decay[:, t] * states[t])
        ddt[:, t] = (by_b * x[:, t]).sum(axis=-1) + (power * a).sum(axis=-1)
        da += reduced_to(a.shape, (power * dt[:, t, :, None]).sum(axis=0))
        back = decay[:, t] * back
    return dx, ddt, da, db.reshape(groups).sum(axis=3), dc.reshape(groups).sum(axis=3)


def _blocks(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1, x.shape[-1])


def _global_rows(length: int, count: int) -> Array:
    """The rows that all rows may attend to: the last quarter of each of `count` blocks."""
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
    mixed = np.einsum("bhnst,bhntd->bhnsd", local, _blocks(v, count)).reshape(v.shape)
    seen = v[:, :, _global_rows(v.shape[2], count)]
    return np.asarray(mixed + np.einsum("bhgl,bhgd->bhld", whole, seen))


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
