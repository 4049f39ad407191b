"""Runs the README's tour as printed and shows each block with what it prints: `make tour`."""

from __future__ import annotations

import code
import re
import sys
import traceback
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def tour(text: str) -> list[tuple[str, str]]:
    """The tour's blocks of Python, each with the sentence that stands before it."""
    part = text.split("<!-- tour -->")[1].split("<!-- end of tour -->")[0]
    return re.findall(r"(.*?)```python\n(.*?)```", part, re.DOTALL)


def main() -> int:
    """Run block after block in one interpreter; the first that fails ends it."""
    failures: list[str] = []

    class Interpreter(code.InteractiveInterpreter):
        def showtraceback(self) -> None:  # whatever excepthook others have installed
            failures.append(traceback.format_exc())

        def showsyntaxerror(self, *_: object, **__: object) -> None:
            failures.append(traceback.format_exc())

    interpreter = Interpreter({"__name__": "tour"})
    for words, block in tour(README.read_text(encoding="utf-8")):
        print("\n" + words.strip() + "\n")
        print("\n".join(f"    {line}" for line in block.rstrip().splitlines()) + "\n", flush=True)
        interpreter.runsource(block, str(README), "exec")
        if failures:
            print("".join(failures), file=sys.stderr)
            return 1
    print("\nNext: docs/choosing.md tells which cell to take, docs/extending.md how to write your own.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
