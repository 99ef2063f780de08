"""Collectives of runs: over groups of ranks that lie side by side, or a stride apart.

The bandwidth terms are those of `meshwright_costmodel.collectives`, for arrays of groups.
Latencies: gathers and scatters go round a ring, one step a rank; reductions take a tree where that
is shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.closed_form.constants import Constants
from bench.closed_form.runs import Column, Runs
from meshwright_costmodel.collectives import port_share


@dataclass(frozen=True, slots=True)
class Network:
    """The links of runs as collectives find them: bytes/s of one device, s a step."""

    runs: Runs
    constants: Constants

    @property
    def inside(self) -> Column:
        return self.runs.inside_bytes_per_s * self.constants["inside"]

    @property
    def between(self) -> Column:
        return self.runs.between_bytes_per_s * self.constants["between"]

    def spread(self, ranks: Column, stride: Column) -> tuple[Column, Column]:
        """(nodes, members in a node) of a group whose neighbours are `stride` devices apart."""
        members = np.minimum(np.maximum(self.runs.per_node / stride, 1.0), ranks)
        return ranks / members, members

    def gather(self, ranks: Column, stride: Column, bytes_gathered: Column) -> Column:
        """s of an all-gather, or of a reduce-scatter, of so many bytes in the whole group."""
        return self._moved(ranks, stride, bytes_gathered, tree=np.zeros(len(self.runs), bool))

    def reduce(self, ranks: Column, stride: Column, bytes_reduced: Column) -> Column:
        """s of an all-reduce."""
        return 2 * self._moved(ranks, stride, bytes_reduced, tree=np.ones(len(self.runs), bool))

    def exchange(self, ranks: Column, local: Column, remote: Column) -> Column:
        """s of an all-to-all in which a device sends `local` bytes in its node, `remote` out."""
        nodes, members = self.spread(ranks, np.ones(len(self.runs)))
        seconds = np.maximum(local / self.inside, np.where(nodes > 1, remote / self.between, 0.0))
        return np.where(ranks > 1, seconds + self._tree(nodes, members), 0.0)

    def send(self, bytes_sent: Column, far: NDArray[np.bool_]) -> Column:
        """s of one message, to another node where `far`."""
        bytes_per_s = np.where(far, self.between, self.inside)
        return bytes_sent / bytes_per_s + self.constants["between_latency"]

    def _moved(
        self, ranks: Column, stride: Column, moved: Column, tree: NDArray[np.bool_]
    ) -> Column:
        nodes, members = self.spread(ranks, stride)
        extents = (nodes, members)
        seconds = moved * np.maximum(
            port_share("all_gather", 0, extents) / self.between,
            port_share("all_gather", 1, extents) / self.inside,
        )
        ring = (ranks - nodes) * self.constants["inside_latency"]
        ring = ring + np.where(nodes > 1, nodes, 0) * self.constants["between_latency"]
        steps = np.where(tree, np.minimum(ring, self._tree(nodes, members)), ring)
        return np.where(ranks > 1, seconds + steps + self.constants["collective_start"], 0.0)

    def _tree(self, nodes: Column, members: Column) -> Column:
        inside = 2 * np.log2(members) * self.constants["inside_latency"]
        return inside + 2 * np.log2(nodes) * self.constants["between_latency"]
