"""The state of a run: a location, handles of its nodes, and the model."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

import omnizarr as oz
from omnizarr.config import ByteBudget
from tests.property.machine.locations import KINDS, Location, remove_memory_files
from tests.property.machine.model import Model, Node, Values, check_node

FORMATS = (1, 2, "3-draft", 3)
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
HANDLES = st.integers(0, 1)
SETTINGS = st.fixed_dictionaries(
    {
        "engine": st.sampled_from(["auto", "reference"]),
        "write_empty_chunks": st.booleans(),
        "cached": st.booleans(),
    }
)
Settings = dict[str, Any]


class State(RuleBasedStateMachine):
    """A hierarchy with two handles, each of which sees the changes of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnizarr-"))
        self.model = Model(3)
        # Handles that were opened at some time; others may have changed the arrays since.
        self.held: dict[str, oz.Array] = {}
        self.consolidated = False
        self.cache = ByteBudget(2**20)
        self.turn = 0
        self.locations = 0
        self.archives = False
        self.stores: list[Any] = []
        self.handles: list[Any] = []

    def teardown(self) -> None:
        self.held.clear()
        self.handles.clear()
        for store in self.stores:
            with suppress(oz.OmnizarrError):  # the file was replaced
                store.close()
        if self.archives:
            gc.collect()  # an archive is completed when its last store is gone, before its folder
        remove_memory_files(Location("", self.folder))
        shutil.rmtree(self.folder)

    @initialize(
        zarr_format=st.sampled_from(FORMATS),
        kind=st.sampled_from(sorted(KINDS)),
        alias=st.integers(0, 99),
    )
    def begin(self, zarr_format: int | str, kind: str, alias: int) -> None:
        self.model = Model(zarr_format)
        self.use(self.new_location(kind))
        if zarr_format != 1:
            oz.create_group(self.store, zarr_format=zarr_format)
            self.model.nodes[""] = Node()
        self.open_handles(alias)

    # Places and handles

    def new_location(self, kind: str) -> Location:
        """Return an empty location of a kind."""
        self.locations += 1
        self.archives |= kind == "zip"
        folder = self.folder / str(self.locations)
        folder.mkdir()
        return Location(kind, folder)

    def use(self, location: Location) -> None:
        """Continue with another location."""
        self.location, self.store = location, location.open()
        self.stores.append(self.store)

    @property
    def format(self) -> Any:
        return self.model.format

    def open_handles(self, alias: int) -> None:
        """Open two handles of the root, through different store objects if possible."""
        self.held.clear()
        locations = [self.store, self.alias(alias)]
        if self.format == 1 or self.model.nodes.get("", Node()).data is not None:
            self.handles = locations
        else:
            self.handles = [oz.open(p, "r+", zarr_format=self.format) for p in locations]

    def alias(self, number: int, *, writable: bool = True) -> Any:
        """Return another name of the location."""
        known = self.location.aliases() if writable else self.location.readers()
        return known[sorted(known)[number % len(known)]]()

    def node(self, handle: int, path: str) -> Any:
        """Return a node as a handle sees it now."""
        if not isinstance(self.handles[handle], oz.Group):
            return oz.open(self.handles[handle], "r+", zarr_format=self.format)
        return self.handles[handle][path] if path else self.handles[handle]

    def array(self, handle: int, path: str, held: bool = False) -> oz.Array:
        """Return an array, opened now or long ago."""
        if held and path in self.held:
            return self.held[path]
        found: oz.Array = self.node(handle, path)
        self.held.setdefault(path, found)
        return found

    def some_array(self, data: st.DataObject) -> str:
        """Return the path of one of the arrays."""
        return data.draw(st.sampled_from(self.model.arrays()), "path")

    def some_values(self, data: st.DataObject) -> tuple[str, Values]:
        """Return the path of one of the arrays, and what is in it."""
        path = self.some_array(data)
        found = self.model.nodes[path].data
        assert found is not None
        return path, found

    def put(self, path: str, node: Node) -> None:
        """Replace a node in the model and drop the handles of the old one."""
        self.drop_handles(path)
        self.model.put(path, node)

    def drop(self, path: str) -> None:
        """Remove a node and everything below it from the model, and their handles."""
        self.drop_handles(path)
        self.model.drop(path)

    def drop_handles(self, path: str) -> None:
        for gone in [path, *self.model.below(path)]:
            self.held.pop(gone, None)

    @contextmanager
    def configured(self, settings: Settings) -> Iterator[None]:
        """Apply the settings of one operation."""
        cache = self.cache if settings["cached"] else None
        with oz.configure(
            engine=settings["engine"],
            write_empty_chunks=settings["write_empty_chunks"],
            chunk_cache=cache,
        ):
            yield

    def unchanged(self) -> None:
        """Raise if a refused operation changed something."""
        self.model.check(self.store)

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        if not hasattr(self, "location"):
            return
        self.turn += 1
        engine = ("auto", "reference")[self.turn % 2]
        store = self.store if self.turn % 3 else self.alias(self.turn, writable=False)
        with oz.configure(engine=engine, chunk_cache=self.cache if self.turn % 5 == 0 else None):
            self.model.check(store)
        if not self.model.nodes:
            return
        problems = oz.validate(self.store)
        assert problems == [], problems
        if self.consolidated:
            group = oz.open(self.store, use_consolidated=True)
            for path, found in group.members(None):
                check_node(found, self.model.nodes[path])
