"""Planning of one request: stated degrees, replanning, host memory; the entry point."""
