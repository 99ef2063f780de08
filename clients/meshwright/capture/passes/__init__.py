"""Graph passes: each rewrites a Program in place and leaves its meaning as it was."""

from collections.abc import Callable

from meshwright.capture.passes.dead_code import drop_dead_code
from meshwright.capture.passes.gelu import recognise_gelu
from meshwright.capture.passes.identity import drop_identities
from meshwright.capture.passes.leading_dims import keep_leading_dims
from meshwright.capture.passes.linear import recognise_linear
from meshwright.capture.passes.mask import recognise_masks
from meshwright.capture.passes.mixture import recognise_mixture
from meshwright.capture.passes.repeated_heads import drop_repeated_heads
from meshwright.capture.passes.rms_norm import recognise_rms_norm
from meshwright.capture.passes.rotary import recognise_rotary
from meshwright.capture.passes.view import merge_views
from meshwright.capture.program import Program

Pass = Callable[[Program], None]

PASSES: tuple[Pass, ...] = (
    drop_dead_code,
    drop_identities,
    merge_views,
    recognise_linear,
    recognise_gelu,
    recognise_rms_norm,
    recognise_rotary,
    drop_repeated_heads,
    recognise_masks,
    drop_dead_code,
    keep_leading_dims,
    merge_views,
    drop_dead_code,
    recognise_mixture,
    keep_leading_dims,
    merge_views,
    drop_dead_code,
)

# where values are not known: masks are recognised by running them in torch
TORCH_FREE: tuple[Pass, ...] = tuple(
    rewrite for rewrite in PASSES if rewrite not in (recognise_masks, recognise_mixture)
)

__all__ = [
    "PASSES",
    "TORCH_FREE",
    "Pass",
    "drop_dead_code",
    "drop_identities",
    "drop_repeated_heads",
    "keep_leading_dims",
    "merge_views",
    "recognise_gelu",
    "recognise_linear",
    "recognise_masks",
    "recognise_mixture",
    "recognise_rms_norm",
    "recognise_rotary",
]
