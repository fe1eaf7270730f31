"""Arrays, groups, and the functions that open and create them."""
