"""`sordini cluster`: state and problems of a cluster."""
