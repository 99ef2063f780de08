"""The REST service, its store and its jobs."""
