"""The planning problem: a request's graph as ops in parts, tensors in slots, and values."""
