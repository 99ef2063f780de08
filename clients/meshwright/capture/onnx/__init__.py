"""Capture of ONNX models as graphs, without their weights."""

from meshwright.capture.onnx.model import capture_onnx

__all__ = ["capture_onnx"]
