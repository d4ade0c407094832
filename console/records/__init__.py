"""Records for pages: decoded, and as a file to download. The search is in `admin/records`."""
