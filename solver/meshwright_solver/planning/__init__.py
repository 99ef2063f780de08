"""Planning of one request, the entry point: stated degrees, replanning, host memory."""
