"""Workers: claim a job, search, verify, report."""
