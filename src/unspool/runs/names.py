"""Names of run folders: after the data, in runs/."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path("runs")


def choose_folder(files: Sequence[str] | None, existing: bool = False) -> Path:
    """The folder of a run on these files.

    Args:
        files: The data; None or empty if it is not known.
        existing: Whether the folder may exist, as that of a run that is resumed or replaced.

    Returns:
        A folder in runs/ with the name of the first file; with a number after it if such a run exists.

    Example:
        >>> choose_folder(["books/hamlet.txt"], existing=True).name
        'hamlet'
    """
    stem = Path(files[0]).stem if files else "run"
    return FOLDER / safe_name(stem) if existing else free_name(stem)


def safe_name(stem: str) -> str:
    """The name of a run's folder, also for a pattern, or the folder ".\"."""
    return re.sub(r"[*?\[\]]", "", stem).strip(".- ") or "run"


def free_name(stem: str) -> Path:
    """A folder in runs/ that does not exist yet."""
    numbers = ["", *(f"-{number}" for number in range(2, 10_000))]
    return next(path for number in numbers if not (path := FOLDER / f"{safe_name(stem)}{number}").exists())
