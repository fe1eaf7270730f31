"""The page in notebooks: a server of its own that ends with it."""

from __future__ import annotations

import gc
import json
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest

import omnizarr as oz
from omnizarr import InvalidArgument, ome


def test_a_page_is_served_until_it_is_closed() -> None:
    array = oz.create_group(None).create_array("a", data=np.arange(3))
    page = oz.show(array, height=300)
    with page:
        assert repr(page) == f"<Page at {page.url}>"
        html = page._repr_html_()
        assert f"src='{page.url}'" in html
        assert "height='300'" in html
        assert json.load(urlopen(f"{page.url}store/zarr.json"))["shape"] == [3]
    assert repr(page) == "<Page, closed>"
    assert "is closed" in page._repr_html_()
    with pytest.raises(URLError):
        urlopen(page.url, timeout=5)


def test_a_page_that_nobody_uses_is_closed() -> None:
    page = oz.show(ome.write(None, np.zeros((8, 8), "u1"), axes="yx"))
    url = page.url
    assert urlopen(f"{url}store/zarr.json").status == 200
    del page
    gc.collect()
    with pytest.raises(URLError):
        urlopen(url, timeout=5)


def test_a_page_has_a_height() -> None:
    with pytest.raises(InvalidArgument, match="number of pixels, not 0"):
        oz.show(oz.create_group(None), height=0)
