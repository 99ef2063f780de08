"""Pipelines: stages of consecutive ops on devices of their own, and the order in which they run."""
