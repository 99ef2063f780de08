"""Microbenchmarks on devices: what a calibration is fitted to."""
