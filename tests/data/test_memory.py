"""Memory stays flat as the corpus grows: five times the text, the same peak."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.corpus_memory import CASES, MEGABYTE, write_text


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells a process its peak")
def test_five_times_the_text_needs_no_more_memory(tmp_path: Path) -> None:
    options = ["--megabytes", "4,20", "--json", "--folder", str(tmp_path)]
    command = [sys.executable, "benchmarks/corpus_memory.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    small, large = ({row["case"]: row for row in rows if row["megabytes"] == size} for size in (4, 20))
    assert set(small) == set(large) == set(CASES)
    for case, row in large.items():
        assert 4 * small[case]["tokens"] < row["tokens"]
        for what in ("peak", "anonymous", "read"):
            assert row[what] < small[case][what] + 20 * MEGABYTE, (case, what)
    assert list(tmp_path.iterdir()) == []


def test_the_text_is_as_long_as_it_is_said_to_be(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", 1)
    assert (tmp_path / "a.txt").stat().st_size == MEGABYTE
    assert len((tmp_path / "a.txt").read_text(encoding="ascii").split()) > 100_000
