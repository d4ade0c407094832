"""The REST API: from the bytes of a request to a call of a handler, and what handlers raise as an answer."""
