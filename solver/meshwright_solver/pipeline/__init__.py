"""The search for pipelines: configurations, estimates, stages of consecutive ops, schedules."""
