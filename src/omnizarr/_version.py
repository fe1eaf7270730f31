"""The version of the package, readable without importing it."""

VERSION = "0.1.0"
