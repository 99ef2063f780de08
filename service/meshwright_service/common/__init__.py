"""Settings, errors, tenants, the clock, and small tools that know no store."""
