"""Keys that request protection: what is served, what refuses the start, and what the logins of a listener need."""
