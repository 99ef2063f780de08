"""MindSpore networks -> Graph, operator for operator, without weights."""
