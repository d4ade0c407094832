"""`sordini acls`, `users` and `quotas`."""
