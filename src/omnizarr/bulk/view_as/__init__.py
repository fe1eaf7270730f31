"""Views of a hierarchy in another format: `nodes` for metadata, `chunks` for data, `store` both."""
