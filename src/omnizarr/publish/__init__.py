"""The one way in which something new becomes visible in a store.

`stage` has the marks of incomplete nodes, and the stages (`directory` for files) that keep new
values beside the old ones and swap the two. `publication` is what all writers use: staged, or in
place with the metadata held back. See docs/design/publishing.md.
"""
