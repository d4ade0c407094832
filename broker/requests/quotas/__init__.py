"""What clients may use: quotas in force, the rates that are measured, throttling of connections."""
