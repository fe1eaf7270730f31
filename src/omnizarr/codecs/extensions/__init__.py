"""Codecs of registered extensions and of other writers; each is imported when it is named."""
