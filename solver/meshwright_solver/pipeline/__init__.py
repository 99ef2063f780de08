"""The pipeline search: configurations, estimates, stages of consecutive ops, schedules."""
