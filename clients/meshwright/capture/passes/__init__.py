"""Graph passes: rewrites of a Program in place that preserve its meaning."""

from collections.abc import Callable

from meshwright.capture.passes.attention import recognize_attention
from meshwright.capture.passes.complex_numbers import lower_complex_numbers
from meshwright.capture.passes.dead_code import drop_dead_code
from meshwright.capture.passes.dense_experts import recognize_dense_experts
from meshwright.capture.passes.gelu import recognize_gelu
from meshwright.capture.passes.identity import drop_identities
from meshwright.capture.passes.identity_index import drop_identity_indices
from meshwright.capture.passes.leading_dims import keep_leading_dims
from meshwright.capture.passes.linear import recognize_linear
from meshwright.capture.passes.listed_samples import join_listed_samples
from meshwright.capture.passes.mask import recognize_masks
from meshwright.capture.passes.masked_scatter import recognize_masked_scatter
from meshwright.capture.passes.mixture import recognize_mixture
from meshwright.capture.passes.pad import recognize_pads
from meshwright.capture.passes.ranges import fold_ranges
from meshwright.capture.passes.repeated_heads import drop_repeated_heads
from meshwright.capture.passes.rms_norm import recognize_rms_norm
from meshwright.capture.passes.rotary import recognize_rotary
from meshwright.capture.passes.rotary_pairs import recognize_rotary_pairs
from meshwright.capture.passes.segment_sum import recognize_segment_sums
from meshwright.capture.passes.separate_heads import separate_heads
from meshwright.capture.passes.size_numbers import restore_size_numbers
from meshwright.capture.passes.stop_gradient import drop_needless_stops
from meshwright.capture.passes.view import merge_views
from meshwright.capture.passes.zero_states import drop_zero_states
from meshwright.capture.program import Program

Pass = Callable[[Program], None]

PASSES: tuple[Pass, ...] = (
    drop_dead_code,
    restore_size_numbers,
    drop_needless_stops,
    lower_complex_numbers,
    drop_identities,
    drop_zero_states,
    drop_identity_indices,
    fold_ranges,
    merge_views,
    join_listed_samples,
    drop_dead_code,
    recognize_pads,
    recognize_masked_scatter,
    recognize_segment_sums,
    merge_views,
    recognize_linear,
    recognize_gelu,
    recognize_rms_norm,
    recognize_rotary,
    recognize_rotary_pairs,
    merge_views,
    recognize_attention,
    merge_views,
    separate_heads,
    merge_views,
    drop_repeated_heads,
    recognize_masks,
    drop_dead_code,
    keep_leading_dims,
    merge_views,
    drop_dead_code,
    recognize_mixture,
    recognize_dense_experts,
    keep_leading_dims,
    merge_views,
    drop_dead_code,
)

# passes without torch; recognition of masks runs them in torch
TORCH_FREE: tuple[Pass, ...] = tuple(
    rewrite for rewrite in PASSES if rewrite not in (recognize_masks, recognize_mixture)
)

__all__ = [
    "PASSES",
    "TORCH_FREE",
    "Pass",
    "drop_dead_code",
    "drop_identities",
    "drop_identity_indices",
    "drop_needless_stops",
    "drop_repeated_heads",
    "drop_zero_states",
    "fold_ranges",
    "join_listed_samples",
    "keep_leading_dims",
    "lower_complex_numbers",
    "merge_views",
    "recognize_attention",
    "recognize_dense_experts",
    "recognize_gelu",
    "recognize_linear",
    "recognize_masked_scatter",
    "recognize_masks",
    "recognize_mixture",
    "recognize_pads",
    "recognize_rms_norm",
    "recognize_rotary",
    "recognize_rotary_pairs",
    "recognize_segment_sums",
    "restore_size_numbers",
    "separate_heads",
]
