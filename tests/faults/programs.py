"""Programs that run in an interpreter of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import omnizarr as oz
location, engine = sys.argv[1:]
oz.config.set(engine=engine, threads=4)
"""


def run(code: str, location: object = "", engine: str = "auto", command: Any = ()) -> list[str]:
    """Return the lines that a program prints; it must print no error and end in time.

    It knows its `location`, and `command` may begin with a program that runs it.
    """
    program = BEGIN + textwrap.dedent(code)
    words = [*command, sys.executable, "-c", program, str(location), engine]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
