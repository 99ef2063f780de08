"""Checkpoints of what ranks train: written, and read under the same plan or another one."""
