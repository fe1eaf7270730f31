"""The one way in which something new becomes visible in a store.

`mark` says that a node is incomplete, and who writes it. `stage` and `directory` keep new values
beside the old ones and swap the two. `publication` is what all writers use: staged, or in place
with the metadata held back. See docs/design/publishing.md.
"""
