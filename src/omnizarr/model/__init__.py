"""Models of nodes: frozen, the same for all formats, with names that are not yet bound to code."""

from omnizarr.model.node import ArrayModel, Dialect, FillValue, GroupModel, Named, Node
