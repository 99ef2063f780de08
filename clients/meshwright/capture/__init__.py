"""Real PyTorch programs -> Graph, on the machine that has the framework, without weights."""

from meshwright.capture.factory import Recipe, capture_factory
from meshwright.capture.hf import capture_hf
from meshwright.capture.interpreter import interpret
from meshwright.capture.module import capture_module

__all__ = ["Recipe", "capture_factory", "capture_hf", "capture_module", "interpret"]
