"""Bridges to other packages; each is imported only when it is asked for."""
