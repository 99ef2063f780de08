"""Logs, metrics, and outages that are logged once."""
