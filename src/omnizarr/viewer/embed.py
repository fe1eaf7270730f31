"""The page of the server inside a notebook."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

from omnizarr.errors import InvalidArgument
from omnizarr.extension import escape
from omnizarr.viewer.display import stored_node
from omnizarr.viewer.server import serving

HEIGHT = 600  # pixels


class Page:
    """A server and the address of its page; it stops with `close`, or when nobody refers to it.

    It is a context manager, too.
    """

    def __init__(self, node: Any, height: int) -> None:
        if height < 1:
            raise InvalidArgument(f"the height of a page is a number of pixels, not {height}")
        running = ExitStack()
        self.url: str = running.enter_context(serving(stored_node(node)))
        self._height = height
        self.close = weakref.finalize(self, running.close)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        if not self.close.alive:
            return f"<p>{escape('the server of this page is closed')}</p>"
        address = quote(self.url, safe=":/[]")
        return (
            f"<iframe src='{address}' title='omnizarr' width='100%' height='{self._height}'"
            " style='border:1px solid;border-radius:6px'></iframe>"
        )

    def __repr__(self) -> str:
        return f"<Page at {self.url}>" if self.close.alive else "<Page, closed>"


def show(node: Any, *, height: int = HEIGHT) -> Page:
    """Return the page of a server, for a notebook.

    Only programs of this machine can reach it, so the browser has to run here, too. The server runs
    until the result is closed or no longer used.

    Args:
        node: A path, URL, store, array, group, image, dataset, variable or map.
        height: The height of the page in pixels.

    Raises:
        NodeNotFound: If there is nothing at the path.
        MissingPackage: If a package for the server is not installed.

    Examples:
        >>> oz.save("ocean.zarr", np.arange(6))
        >>> with oz.show("ocean.zarr") as page:
        ...     page.url.startswith("http://127.0.0.1:")
        True
    """
    return Page(node, height)
