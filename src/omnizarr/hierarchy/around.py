"""What a store has where a node is to be created: there in any format, above in its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnizarr import config
from omnizarr.errors import NodeExists
from omnizarr.formats import Format, Probe, consolidated
from omnizarr.hierarchy.fetch import fetch
from omnizarr.model import ArrayModel, GroupModel, Node, paths
from omnizarr.stores import Store
from omnizarr.stores.withheld import marker


@dataclass(frozen=True, slots=True)
class Around:
    """The documents at and above a place, from one batch of look-ups."""

    store: Store
    path: str
    format: Format
    documents: Mapping[str, bytes]

    @classmethod
    def look(cls, store: Store, path: str, format: Format) -> Around:
        """What is there now."""
        keys = [*format.root_documents(), *consolidated.holders(format, path)]
        for parent in paths.ancestors(path):
            keys += format.keys(parent)
        keys += Probe(path).keys()
        keys.append(marker(path))
        return cls(store, path, format, fetch(store, dict.fromkeys(keys)))

    def check_root(self) -> None:
        """Raise where another format's hierarchy has a key that this one's needs."""
        keys = self.format.root_documents() or self.format.keys("")[:1]
        taken = {k: self.documents[k] for k in keys if k in self.documents} if self.path else {}
        if taken and not Probe("", self.format.name).formats(taken, []):
            raise NodeExists(
                f"{next(iter(taken))!r} in {self.store!r} is not a document of zarr"
                f" {self.format.name}, so {paths.show(self.path)} cannot be created in that format;"
                " leave zarr_format out to join the hierarchy that is there"
            )

    def other_root(self) -> tuple[Format, Node] | None:
        """A hierarchy whose entry point a new root of this format would replace."""
        for format in Probe("").formats(self.documents, []) if not self.path else ():
            other = type(format) is not type(self.format)
            if other and format.root_documents().keys() & {*self.format.keys("")}:
                return format, GroupModel(implicit=True)
        return None

    def missing_groups(self) -> list[str]:
        """Paths above that have no group yet; raises where one is an array."""
        missing = []
        for path in paths.ancestors(self.path):
            node = self.format.read(path, self.documents, [])
            if isinstance(node, ArrayModel):
                raise NodeExists(
                    f"{paths.show(path)} in {self.store!r} is an array; nothing can be below it"
                )
            implied = self.format.implicit_groups and not config.get().explicit_groups
            if node is None and not implied:
                missing.append(path)
        return missing
