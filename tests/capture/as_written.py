"""Capture with attention as written, for comparison with PyTorch's memory op by op."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from meshwright.capture import decompose
from meshwright.capture.passes import recognize_attention


@contextmanager
def attention_as_written() -> Iterator[None]:
    """Products and softmax of attention stay ops of their own."""
    passes = tuple(rewrite for rewrite in decompose.PASSES if rewrite is not recognize_attention)
    with mock.patch.object(decompose, "PASSES", passes):
        yield
