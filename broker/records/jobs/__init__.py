"""Records that take long to open, in child processes: the queue of a broker, and what runs in a child."""
