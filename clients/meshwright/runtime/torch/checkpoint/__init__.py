"""Checkpoints of parallel models: saving, and loading under the same plan or another one."""
