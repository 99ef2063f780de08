"""The endpoints, one resource a file."""
