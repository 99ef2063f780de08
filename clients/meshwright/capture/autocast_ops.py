"""Ops that autocast casts for accelerators: PyTorch's list for CUDA (ATen/autocast_mode.h).

The names are those of PyTorch's Python functions without namespace. The last tuples are functions
that PyTorch composes of listed ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Policy = Literal["low", "float32", "widest", "refused"]

_LOW = (
    "_convolution", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "convolution", "prelu", "addmm", "addmv", "addr",
    "matmul", "einsum", "mm", "mv", "linalg_vecdot", "linear", "addbmm", "baddbmm", "bmm",
    "chain_matmul", "linalg_multi_dot", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
    "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell",
    "_scaled_dot_product_flash_attention", "scaled_dot_product_attention",
)  # fmt: skip
_LOW_COMPOSED = ("lstm", "gru", "rnn_tanh", "rnn_relu", "__matmul__")
_FLOAT32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p",
    "reciprocal", "rsqrt", "sinh", "tan", "pow", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm", "nuclear_norm", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss",
    "kl_div", "l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss",
    "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss",
    "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm", "logsumexp",
    "upsample_nearest1d", "_upsample_nearest_exact1d", "upsample_nearest2d",
    "_upsample_nearest_exact2d", "upsample_nearest3d", "_upsample_nearest_exact3d",
    "upsample_linear1d", "upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_trilinear3d",
    "upsample_bicubic2d", "_upsample_bicubic2d_aa", "prod", "softmax", "log_softmax", "cumprod",
    "cumsum", "linalg_vector_norm", "linalg_matrix_norm", "sum", "norm",
)  # fmt: skip
_FLOAT32_COMPOSED = (
    "cross_entropy_loss", "nll_loss_nd", "linalg_norm", "special_softmax", "special_log_softmax",
    "special_logsumexp", "special_expm1", "special_log1p", "__pow__",
)  # fmt: skip
_WIDEST = (
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "vdot", "grid_sampler", "index_put",
    "tensordot", "scatter_add",
)  # fmt: skip
_REFUSED = ("binary_cross_entropy",)

POLICIES: Mapping[str, Policy] = {
    **dict.fromkeys((*_LOW, *_LOW_COMPOSED), "low"),
    **dict.fromkeys((*_FLOAT32, *_FLOAT32_COMPOSED), "float32"),
    **dict.fromkeys(_WIDEST, "widest"),
    **dict.fromkeys(_REFUSED, "refused"),
}
