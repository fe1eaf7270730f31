"""Rechunk: `rules` say what each array gets, `plan` how within the memory, `job` does it."""
