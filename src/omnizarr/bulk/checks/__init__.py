"""The checks of `verify`: documents, stored keys, and chunks."""
