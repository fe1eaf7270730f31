"""Any sequence of operations on a hierarchy, compared with NumPy arrays and dictionaries.

Each module has the rules of one subject; `Machine` has them all.
"""

from __future__ import annotations

from tests.property.machine.contents import Contents
from tests.property.machine.members import Members
from tests.property.machine.overwrites import Overwrites
from tests.property.machine.readers import Readers
from tests.property.machine.replaced import Replaced


class Machine(Contents, Members, Overwrites, Replaced, Readers):
    """All rules."""
