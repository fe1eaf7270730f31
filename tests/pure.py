"""Run a part of the tests on a copy of the package without its compiled modules.

python -m tests.pure [arguments of pytest]

Python code then does all the work, as on a machine without a compiler. Tests of the compiled
modules themselves are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = [
    "tests/codecs/test_serializers_vlen.py",
    "tests/engine/test_dispatch.py",
    "tests/engine/test_missing_chunks.py",
    "tests/golden",
    "tests/hierarchy/test_array.py",
    "tests/hierarchy/test_create.py",
    "tests/hierarchy/test_view.py",
    "tests/bulk/test_pyramid.py",
    "tests/stores/local",
    "tests/test_json_objects.py",
    "tests/test_packaging.py",
]
IMPORT_ALL = """
import importlib.util, pkgutil, omnizarr
from omnizarr.config import COMPILED
for module in pkgutil.walk_packages(omnizarr.__path__, "omnizarr."):
    # PyTorch is not among the packages of the tests.
    absent = module.name == "omnizarr.interop.torch" and not importlib.util.find_spec("torch")
    if not (absent or module.name.endswith("__main__")):
        importlib.import_module(module.name)
found = [name for name in COMPILED if importlib.util.find_spec(f"omnizarr.{name}")]
assert not found, f"{found} are there, so that this would show nothing"
"""


def main(arguments: list[str]) -> int:
    """Run pytest, and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="omnizarr-pure-") as name:
        source = Path(name) / "src"
        shutil.copytree(
            ROOT / "src",
            source,
            ignore=shutil.ignore_patterns("*.so", "*.pyd", "*.dylib", "__pycache__"),
        )
        # First for this process, its workers and those that tests start.
        sys.path.insert(0, str(source))
        paths = [str(source), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        program = f"import sys; sys.path.insert(0, {str(source)!r})\n{IMPORT_ALL}"
        subprocess.run([sys.executable, "-c", program], check=True)
        os.chdir(ROOT)
        return int(pytest.main(arguments or ["-q", "-n", "auto", "--dist", "worksteal", *TESTS]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
