"""Folding: equal layers as five, and the way back for cost graphs and plans."""
