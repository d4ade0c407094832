"""`sordini groups`: what a reset would do is decided in `admin/groups/`."""
