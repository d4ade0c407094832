"""`sordini serve --secure`: an authority, the broker's certificate, a first user, and files for clients, made once."""
