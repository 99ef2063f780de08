"""Measurement agent: microbenchmarks on devices, whose samples calibrations are fitted to."""
