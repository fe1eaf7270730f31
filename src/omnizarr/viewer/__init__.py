"""A read-only server: stored keys, views in other formats, decoded values, and a page."""
