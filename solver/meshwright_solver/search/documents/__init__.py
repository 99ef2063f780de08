"""Cost graphs of files: the conversion to a CostGraph, the engines, and a separate evaluator."""
