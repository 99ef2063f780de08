"""Stages of a plan, op by op: required layouts, views and steps, for runtimes and converters."""
