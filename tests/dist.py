"""Build the source distribution and wheels, and install them as a user would.

python -m tests.dist [FOLDER] [--python 3.11 3.12 3.13]

Wheels are installed in empty environments without a compiler, one for each Python that is
installed; there the demo runs, with all compiled modules and no package of the build. All wheels
are built from the source distribution; it is also installed without a compiler, where Python code
does all the work.
FOLDER (by default `dist`) has the files afterwards; environments are temporary.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WINDOWS = sys.platform == "win32"
SCRIPTS = "Scripts" if WINDOWS else "bin"
# In an environment without a compiler: the demo, and a look at which modules are there.
CHECK = """
import importlib.util, sys
import omnizarr
from omnizarr.config import COMPILED
omnizarr.show_versions()
found = {name for name in COMPILED if importlib.util.find_spec(f"omnizarr.{name}")}
expected = set(COMPILED) if sys.argv[1] == "compiled" else set()
sys.exit(f"expected the modules {expected}, found {found}" if found != expected else 0)
"""
ABSENT = ("blosc2", "zarr")  # of the build, or of tests


def run(*command: object, env: dict[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Run a command, and end with its exit code and output if it fails."""
    print("$", " ".join(map(str, command)).partition("\n")[0], flush=True)
    done = subprocess.run(
        [str(part) for part in command],
        env=env,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        print(done.stdout)
        raise SystemExit(f"exit code {done.returncode} of {command[0]}")


def find_python(version: str) -> str | None:
    """Return the path of a Python, or None if that version is not installed."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return sys.executable
    found = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python3")))
    return found[-1] if found else shutil.which(f"python{version}")


def new_environment(python: str, folder: Path) -> Path:
    """Create an environment with pip only, and return its Python."""
    run(python, "-m", "venv", folder)
    return folder / SCRIPTS / ("python.exe" if WINDOWS else "python")


def without_compiler(python: Path) -> dict[str, str]:
    """Return the variables of a machine on which nothing can be compiled."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "CFLAGS", "LDFLAGS", "OMNIZARR_STRICT_BUILD"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    absent = str(python.parent / "no-compiler")
    return {**kept, "PATH": str(python.parent), "CC": absent, "CXX": absent}


def build(python: Path, folder: Path) -> Path:
    """Build and check the source distribution and a wheel; return the former."""
    run(python, "-m", "pip", "install", "--quiet", "build", "twine")
    run(python, "-m", "build", "--outdir", folder, env={**os.environ, "OMNIZARR_STRICT_BUILD": "1"})
    run(python, "-m", "twine", "check", "--strict", *folder.iterdir())
    (source,) = folder.glob("*.tar.gz")
    return source


def check_source(source: Path) -> None:
    """Fail if a file under version control is not in the source distribution."""
    with tarfile.open(source) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    git = ["git", "-C", str(ROOT), "ls-files", "-z"]
    tracked = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    missing = sorted(set(filter(None, tracked)) - found - {".gitignore"})
    if missing:
        raise SystemExit(f"not in the source distribution: {', '.join(missing)}; see MANIFEST.in")


def check_wheel(wheel: Path) -> None:
    """Fail if a wheel lacks a license or has files of the build."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    licenses = {Path(name).name for name in names if "dist-info/licenses/" in name}
    expected = {"LICENSE", *(path.name for path in (ROOT / "licenses").iterdir())}
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    sources = [name for name in names if name.endswith((".c", ".h"))]
    if licenses != expected or tops != {"omnizarr"} or sources:
        raise SystemExit(f"{wheel.name}: licenses {licenses}, folders {tops}, sources {sources}")


def try_install(
    python: str, package: Path, parts: str, options: list[str], temporary: Path
) -> None:
    """Install in an empty environment without a compiler, and run the demo there."""
    own = new_environment(python, temporary)
    env = without_compiler(own)
    run(own, "-m", "pip", "install", "--quiet", *options, package, env=env)
    run(own, "-m", "pip", "check", env=env)
    run(own, "-I", "-c", CHECK, parts, env=env, cwd=temporary)
    run(own, "-I", ROOT / "examples" / "demo.py", temporary / "demo-data", env=env, cwd=temporary)
    for name in ABSENT:
        code = f"import importlib.util as u, sys; sys.exit(u.find_spec({name!r}) is not None)"
        run(own, "-I", "-c", code, env=env)


def main() -> None:
    """Build, check and try everything; print the sizes of the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", nargs="+", default=["3.11", "3.12", "3.13", "3.14"])
    options = parser.parse_args()
    folder = options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    versions = {v: found for v in options.python if (found := find_python(v)) is not None}
    if not versions:
        raise SystemExit(f"none of these versions of Python is installed: {options.python}")
    with tempfile.TemporaryDirectory(prefix="omnizarr-dist-") as name:
        temporary = Path(name)
        first = next(iter(versions.values()))
        builder = new_environment(first, temporary / "build")
        source = build(builder, folder)
        check_source(source)
        for version, python in list(versions.items())[1:]:
            own = new_environment(python, temporary / f"build-{version}")
            run(own, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source)
        for version, python in versions.items():
            tag = f"cp{version.replace('.', '')}"
            (wheel,) = folder.glob(f"*-{tag}-{tag}-*.whl")
            check_wheel(wheel)
            only = ["--only-binary", ":all:"]
            try_install(python, wheel, "compiled", only, temporary / f"wheel-{version}")
        try_install(first, source, "pure", [], temporary / "source")
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")
    print("installed without a compiler and tried with Python", ", ".join(versions))


if __name__ == "__main__":
    main()
