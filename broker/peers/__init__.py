"""How this broker is a client of the others: connections, and what it asks of them and of the controller."""
