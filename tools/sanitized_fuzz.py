"""The second child of `sanitize.py`: the fuzzer's calls, through torch, on kernels with sanitizers."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.sanitized_calls import sanitize_builds  # noqa: E402


def main(folder: Path, level: str, count: int) -> int:
    sanitize_builds(folder, level)
    from tests.fuzz.run import main as fuzz  # after the builds are changed: importing it loads torch, which takes time

    defects = fuzz(0, count)
    print(f"{count} calls of the fuzzer, {defects} defects", flush=True)
    return min(1, defects)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
