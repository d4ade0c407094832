"""The pages, and the changes that their forms request. Each module has `routes`."""
