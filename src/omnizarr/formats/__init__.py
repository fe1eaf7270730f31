"""Formats: metadata to model and back. Only this package knows versions and their keys."""

from omnizarr.formats.detect import Probe, by_name, is_metadata, makes_node, publication_order
from omnizarr.formats.draft import V3Draft
from omnizarr.formats.format import Documents, Format, title
from omnizarr.formats.v1 import V1
from omnizarr.formats.v2 import V2
from omnizarr.formats.v3 import V3
