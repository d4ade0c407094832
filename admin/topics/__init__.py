"""Topics: what they are, what changes them, and their records batch by batch."""
