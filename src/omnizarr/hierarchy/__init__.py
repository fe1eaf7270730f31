"""What users hold: arrays, groups, and the functions that open and create them."""
