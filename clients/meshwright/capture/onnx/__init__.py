"""ONNX models -> Graph, without reading their weights."""

from meshwright.capture.onnx.model import capture_onnx

__all__ = ["capture_onnx"]
