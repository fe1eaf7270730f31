"""A Python with the package and its required dependencies only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIRED = ("click", "deflate", "google_crc32c", "numcodecs", "numpy", "pycurl", "rich")
OF_THOSE = ("zstandard", "typing_extensions", "markdown_it", "mdurl", "pygments", "omnizarr")

# Finders that do not see other packages, rather than raise: `find_spec` then answers None, too.
_HIDE = f"""
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        top = name.partition(".")[0]
        known = top in {{*sys.stdlib_module_names, *{(*REQUIRED, *OF_THOSE)!r}}}
        return self.finder.find_spec(name, *rest) if known or top[0] == "_" else None
    def find_distributions(self, *rest):
        for found in getattr(self.finder, "find_distributions", lambda *_: ())(*rest):
            if found.metadata["Name"].lower().replace("-", "_") in {(*REQUIRED, *OF_THOSE)!r}:
                yield found
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
for name in {{name.partition(".")[0] for name in sys.modules}} & {{"lmdb", "redis", "xarray"}}:
    raise SystemExit(f"{{name}} is imported already")
"""


def run_plain(program: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program that cannot import optional packages."""
    return subprocess.run(
        [sys.executable, "-c", f"{_HIDE}\n{program}"], capture_output=True, text=True, cwd=folder
    )
