"""Asks a new interpreter to measure what can only be measured there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from unspool.errors import UnspoolError


def in_fresh_process(*arguments: str, threads: int, cache: str | None = None) -> dict[str, Any]:
    """What `unspool.lab.bench.fresh`, run by a new interpreter with these arguments, has measured."""
    environment = os.environ | ({"UNSPOOL_CACHE": cache} if cache else {})
    command = [sys.executable, "-m", "unspool.lab.bench.fresh", str(threads), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise UnspoolError(f"measuring {' '.join(arguments)} in a new process failed:\n{done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
