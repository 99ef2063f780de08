"""Jobs: leases, events, incumbents, agents, fair shares, retention, backup."""
