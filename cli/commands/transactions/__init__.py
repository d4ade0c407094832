"""`sordini transactions`: lists them, and ends those that hang."""
