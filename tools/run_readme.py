"""Runs the README's Python examples as printed and shows each block with its output: `make tour`."""

from __future__ import annotations

import code
import os
import pydoc_data.topics
import re
import sys
import tempfile
import traceback
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
#: Characters of the book that the examples train on.
LENGTH = 60_000


def tour(text: str) -> list[tuple[str, str]]:
    """The tour's blocks of Python, each with the words that stand before it."""
    part = text.split("<!-- tour -->")[1].split("<!-- end of tour -->")[0]
    return re.findall(r"(.*?)```python\n(.*?)```", part, re.DOTALL)


def write_book(folder: Path) -> Path:
    """The file `book.txt` that the examples read: text that ships with every Python."""
    path = folder / "book.txt"
    text = "\n".join(topic for _, topic in sorted(pydoc_data.topics.topics.items()))
    path.write_text(text[:LENGTH], encoding="utf-8")
    return path


def run_blocks(blocks: list[tuple[str, str]]) -> str:
    """Run block after block in one interpreter; the traceback of the first that fails, or nothing."""
    failures: list[str] = []

    class Interpreter(code.InteractiveInterpreter):
        def showtraceback(self) -> None:  # whatever excepthook others have installed
            failures.append(traceback.format_exc())

        def showsyntaxerror(self, *_: object, **__: object) -> None:
            failures.append(traceback.format_exc())

    interpreter = Interpreter({"__name__": "tour"})
    for words, block in blocks:
        print("\n" + words.strip() + "\n")
        print("\n".join(f"    {line}" for line in block.rstrip().splitlines()) + "\n", flush=True)
        incomplete = interpreter.runsource(block, str(README), "exec")
        if failures or incomplete:
            return "".join(failures) or f"SyntaxError: this block is incomplete:\n{block}"
    return ""


def main() -> int:
    """Run the tour in a temporary folder."""
    blocks = tour(README.read_text(encoding="utf-8"))
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        write_book(Path(folder))
        os.chdir(folder)
        try:
            failure = run_blocks(blocks)
        finally:
            os.chdir(before)
    if failure:
        print(failure, file=sys.stderr)
        return 1
    print("\nNext: docs/tour.md is the full tour, docs/choosing.md helps to choose a cell.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
