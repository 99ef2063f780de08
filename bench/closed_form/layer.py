"""One layer's passes over one microbatch, on one device of a tensor-parallel group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.closed_form.constants import Constants
from bench.closed_form.runs import Column, Runs
from bench.closed_form.traffic import Network

# published: FlashAttention-2 (arXiv:2307.08691), section 4: five products backward for two forward
BACKWARD_ATTENTION = 2.5
LOGIT_BYTES = 24.0  # chosen: logits and their gradient in float32, three reads or writes each


@dataclass(frozen=True, slots=True)
class Layer:
    """Seconds of a mean layer; arrays, one entry a run. Terms named in `without` count nothing."""

    runs: Runs
    constants: Constants
    without: frozenset[str] = frozenset()

    def kept(self, term: str, seconds: Column) -> Column:
        """A term, or nothing where it is left out."""
        return np.zeros_like(seconds) if term in self.without else seconds

    @property
    def memory_bytes_per_s(self) -> Column:
        return self.runs.memory_bytes_per_s * self.constants["memory"]

    def product(self, m: Column, n: Column, k: Column, share: Column | float = 1.0) -> Column:
        """s of an m x k by k x n product: arithmetic, and what it does not hide of its traffic.

        Large products reach their share of peak; where m, n or k is small, traffic counts.
        """
        own = self.constants.of_generation("matmul", self.runs) * share
        own = own * np.where(self.runs.eight_bit > 0, self.constants["matmul_eight_bit"], 1.0)
        traffic = self.runs.number_bytes * (m * k + k * n + m * n) / self.memory_bytes_per_s
        arithmetic = 2 * m * n * k / (self.runs.peak_flops_per_s * own)
        return arithmetic + self.kept("matmul_traffic", self.constants["matmul_traffic"] * traffic)

    def products(self) -> Column:
        """s of the forward products of a layer, without attention's core."""
        runs, tokens, hidden = self.runs, self.runs.tokens, self.runs.hidden
        heads = runs.heads * runs.head_dim / runs.tp
        attention = self.product(tokens, runs.qkv_width / runs.tp, hidden)
        attention = attention + self.product(tokens, hidden, heads)
        states = self.product(tokens, runs.state_width / runs.tp, hidden)
        states = states + self.product(tokens, hidden, runs.state_inner / runs.tp)
        ffn = runs.ffn / runs.tp
        dense = self.product(tokens, runs.ups * ffn, hidden) + self.product(tokens, hidden, ffn)
        mixers = runs.attention_share * attention + runs.state_share * states
        return mixers + runs.dense_share * dense + (1 - runs.dense_share) * self._experts()

    def _experts(self) -> Column:
        """s of a layer's experts: grouped products, and the shared one.

        A device's only expert is a plain product: there is nothing to group.
        """
        runs, hidden = self.runs, self.runs.expert_hidden
        local = np.maximum(runs.experts, 1.0) / runs.ep
        rows = np.maximum(runs.tokens * runs.top_k / runs.tp / local, 1.0)
        share = np.where(local > 1, self.constants["expert_matmul"], 1.0)
        up = self.product(rows, runs.expert_ups * runs.expert_ffn, hidden, share)
        grouped = local * (up + self.product(rows, hidden, runs.expert_ffn, share))
        shared = runs.shared_ffn / runs.tp
        always = self.product(runs.tokens, runs.expert_ups * shared, runs.hidden)
        always = always + self.product(runs.tokens, runs.hidden, shared)
        return np.where(runs.experts > 0, grouped, 0.0) + np.where(shared > 0, always, 0.0)

    def attention(self) -> tuple[Column, Column]:
        """s of attention's core, forward and backward: a causal kernel, or products and softmax."""
        runs = self.runs
        pairs = runs.microbatch * runs.sequence * (runs.sequence / runs.cp) * runs.heads / runs.tp
        flops = 4 * pairs * runs.head_dim
        half = self.constants["head_dimension"]
        saturated = runs.head_dim / (runs.head_dim + half) * (128 + half) / 128
        queries = runs.sequence / runs.cp
        saturated = saturated * queries / (queries + self.constants["attention_sequence"])
        saturated = saturated * np.where(runs.ported > 0, self.constants["attention_ported"], 1.0)
        rate = self.constants.of_generation("attention", runs) * saturated
        fused = 0.5 * runs.attended * flops / (runs.attention_flops_per_s * rate)
        scores = flops / (runs.attention_flops_per_s * self.constants["scores"])
        passes = self.constants["score_passes"] * runs.number_bytes * pairs
        passes = passes / self.memory_bytes_per_s
        back = BACKWARD_ATTENTION / self.constants["attention_backward"]
        forward = np.where(runs.flash > 0, fused, scores + passes)
        backward = np.where(runs.flash > 0, back * fused, 2 * scores + passes)
        share = runs.attention_share
        return self.kept("attention", share * forward), self.kept("attention", share * backward)

    def elementwise(self) -> Column:
        """s of a layer's memory-bound ops, forward."""
        runs = self.runs
        dense = runs.dense_share * runs.ups * runs.ffn
        routed = runs.expert_ups * (runs.top_k * runs.expert_ffn + runs.shared_ffn)
        routed = (1 - runs.dense_share) * routed
        numbers = self.constants["hidden_passes"] * runs.hidden / runs.sequence_parts
        numbers = numbers + self.constants["ffn_passes"] * (dense + routed) / runs.tp
        states = runs.state_share * runs.state_width / runs.tp
        numbers = numbers + self.constants["state_passes"] * states
        read = 2 * runs.hidden / runs.sequence_parts
        read = read + (runs.heads * runs.head_dim + (dense + routed) / runs.ups) / runs.tp
        casts = np.where(runs.eight_bit > 0, self.constants["cast_passes"] * read, 0.0)
        moved = runs.number_bytes * runs.tokens * (numbers + casts)
        return self.kept("elementwise", moved / self.memory_bytes_per_s)

    def tensor_parallel(self, network: Network) -> Column:
        """s of the two collectives of a layer's pass that computation does not hide."""
        runs = self.runs
        moved = runs.number_bytes * runs.tokens * runs.hidden
        side_by_side = np.ones(len(runs))
        whole = network.reduce(runs.tp, side_by_side, moved)
        split = 2 * network.gather(runs.tp, side_by_side, moved)
        one = np.where(runs.sequence_parallel > 0, split, whole)
        return self.kept(
            "tensor_parallel", 2 * one * self.constants.of_stack("tensor_exposed", runs)
        )

    def expert_parallel(self, network: Network) -> Column:
        """s of the dispatch and the combine of a layer's pass.

        A token goes to top_k devices of its node's size of group, but only once to each node, from
        where it is passed on (as DeepEP does): of `nodes` nodes it visits
        nodes (1 - (1 - 1 / nodes) ^ top_k), by chance.
        """
        runs = self.runs
        nodes, members = network.spread(runs.ep, np.ones(len(runs)))
        token = runs.number_bytes * runs.expert_hidden
        sent = runs.tokens / runs.tp
        local = sent * runs.top_k * token * (members - 1) / np.maximum(runs.ep, 1.0)
        visited = nodes * (1 - (1 - 1 / nodes) ** np.maximum(runs.top_k, 1.0))
        remote = sent * token * visited * (nodes - 1) / nodes
        one = network.exchange(runs.ep, local, remote)
        exposed = 2 * one * self.constants["expert_exposed"] * (1 - runs.dense_share)
        return self.kept("expert_parallel", exposed)

    def routing(self) -> Column:
        """s of a layer's pass for choosing experts and for ordering tokens by them."""
        runs = self.runs
        copies = runs.tokens / runs.tp * runs.top_k
        passes = self.constants["routing_passes"] * runs.number_bytes * copies * runs.expert_hidden
        starts = self.constants["expert_start"] * runs.experts / runs.ep * (1 + runs.eight_bit)
        starts = self.constants["routing_start"] + starts
        seconds = passes / self.memory_bytes_per_s + starts
        routed = (1 - runs.dense_share) * np.where(runs.experts > 0, seconds, 0.0)
        return self.kept("routing", routed)

    def context_parallel(self, network: Network) -> Column:
        """s of the exchange of keys and values of a layer's pass."""
        runs = self.runs
        sequences = runs.number_bytes * runs.microbatch * runs.sequence
        keys = 2 * sequences * runs.kv_heads * runs.head_dim
        one = network.gather(runs.cp, runs.tp, keys / runs.tp)
        exposed = runs.attention_share * one * self.constants["context_exposed"]
        return self.kept("context_parallel", exposed)

    def head(self) -> Column:
        """s of the logits, their loss and their gradient, forward and backward."""
        runs = self.runs
        words = runs.vocabulary / runs.tp
        traffic = LOGIT_BYTES * runs.tokens * words / self.memory_bytes_per_s
        return 3 * self.product(runs.tokens, words, runs.hidden) + traffic
