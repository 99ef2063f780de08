"""Verification: a plan executed in numpy, and every number of its document checked."""
