"""Small datasets, each written and read with one package."""
