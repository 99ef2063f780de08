"""A plan read op by op, and two plans beside each other: what people and dashboards look at."""
