"""Stores in ``with`` blocks."""

from __future__ import annotations

from typing import Self


class Closes:
    """Has its `close` called when a ``with`` block ends."""

    def close(self) -> None:
        """Nothing is kept open that this store alone uses; other stores have this too."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
