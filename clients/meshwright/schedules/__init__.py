"""Pipeline schedules: the order of the passes of pipeline stages."""
