"""The state of a run: a place, handles of what is stored there, and the model of it."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

import omnizarr as oz
from omnizarr.config import ByteBudget
from tests.property.machine.model import Model, Node, check_node
from tests.property.machine.places import KINDS, Place, forget

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
    """A hierarchy with two handles; what either does, the other finds."""

    tally: ClassVar[Counter[str]] = Counter()  # what all runs of this process did

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="omnizarr-"))
        self.model = Model(3)
        # Handles that were opened at some time; others may have changed the arrays since.
        self.held: dict[str, oz.Array] = {}
        self.consolidated = False
        self.cache = ByteBudget(2**20)
        self.turn = 0
        self.places = 0
        self.archives = False
        self.stores: list[Any] = []
        self.handles: list[Any] = []

    def teardown(self) -> None:
        self.held.clear()
        self.handles.clear()
        for store in self.stores:
            with suppress(oz.OmnizarrError):  # whose file was replaced is told so
                store.close()
        if self.archives:
            gc.collect()  # an archive is completed when its last store is gone, before its folder
        forget(Place("", self.folder))
        shutil.rmtree(self.folder)

    @initialize(
        zarr_format=st.sampled_from(FORMATS),
        kind=st.sampled_from(sorted(KINDS)),
        alias=st.integers(0, 99),
    )
    def begin(self, zarr_format: int | str, kind: str, alias: int) -> None:
        self.tally[f"{kind} sequences"] += 1
        self.model = Model(zarr_format)
        self.use(self.new_place(kind))
        if zarr_format != 1:
            oz.create_group(self.store, zarr_format=zarr_format)
            self.model.nodes[""] = Node()
        self.open_handles(alias)

    # Places and handles

    def new_place(self, kind: str) -> Place:
        """A place of a kind where nothing is yet."""
        self.places += 1
        self.archives |= kind == "zip"
        folder = self.folder / str(self.places)
        folder.mkdir()
        return Place(kind, folder)

    def use(self, place: Place) -> None:
        """Go on with another place."""
        self.place, self.store = place, place.open()
        self.stores.append(self.store)

    @property
    def format(self) -> Any:
        return self.model.format

    def open_handles(self, alias: int) -> None:
        """Two handles of the root, through different store objects where that can be."""
        self.held.clear()
        places = [self.store, self.store if self.place.kind == "DBM" else self.alias(alias)]
        if self.format == 1 or self.model.nodes.get("", Node()).data is not None:
            self.handles = places
        else:
            self.handles = [oz.open_group(p, "r+", zarr_format=self.format) for p in places]

    def alias(self, number: int, *, writable: bool = True) -> Any:
        """The place in other words."""
        if self.place.kind == "DBM":  # whose file has one user at a time
            return self.store
        known = self.place.aliases() if writable else self.place.readers()
        return known[sorted(known)[number % len(known)]]()

    def node(self, handle: int, path: str) -> Any:
        """A node as a handle finds it now."""
        if not isinstance(self.handles[handle], oz.Group):
            return oz.open_array(self.handles[handle], "r+", zarr_format=self.format)
        return self.handles[handle][path] if path else self.handles[handle]

    def array(self, handle: int, path: str, held: bool = False) -> oz.Array:
        """An array, as it is found now, or as it was when it was opened long ago."""
        if held and path in self.held:
            return self.held[path]
        found: oz.Array = self.node(handle, path)
        self.held.setdefault(path, found)
        return found

    def some_array(self, data: st.DataObject) -> str:
        """The path of one of the arrays."""
        return data.draw(st.sampled_from(self.model.arrays()), "path")

    def put(self, path: str, node: Node) -> None:
        """Have another node in the model, and no handle of what it replaced."""
        self.forget_held(path)
        self.model.put(path, node)

    def drop(self, path: str) -> None:
        """Remove a node from the model, and handles of it and of all below."""
        self.forget_held(path)
        self.model.drop(path)

    def forget_held(self, path: str) -> None:
        for gone in [path, *self.model.below(path)]:
            self.held.pop(gone, None)

    @contextmanager
    def configured(self, settings: Settings) -> Iterator[None]:
        """Settings of one operation."""
        cache = self.cache if settings["cached"] else None
        with oz.configure(
            engine=settings["engine"],
            write_empty_chunks=settings["write_empty_chunks"],
            chunk_cache=cache,
        ):
            yield

    def unchanged(self) -> None:
        """Raise where a refused operation changed something."""
        self.model.check(self.store)

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        if not hasattr(self, "place"):
            return
        self.turn += 1
        self.tally[f"{self.place.kind} operations"] += 1
        engine = ("auto", "reference")[self.turn % 2]
        store = self.store if self.turn % 3 else self.alias(self.turn, writable=False)
        with oz.configure(engine=engine, chunk_cache=self.cache if self.turn % 5 == 0 else None):
            self.model.check(store)
        if not self.model.nodes:
            return
        problems = oz.validate(self.store)
        assert problems == [], problems
        if self.consolidated:
            group = oz.open_group(self.store, use_consolidated=True)
            for path, found in group.members(None):
                check_node(found, self.model.nodes[path])
