"""What a request has to pass before a page sees it: host, rate, size, session; and the tokens of forms."""
