"""Measurements on one GPU, and what the planner predicts of them."""
