"""A process that runs chapters for another: `python -m unspool.lab.worker`.

It reads requests from standard input and answers on standard output, one JSON object per line: any number of
`{"progress": 0.5}`, then `{"found": …, "seconds": …}` or `{"error": …}`. What a chapter prints goes to standard error.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

from unspool.insight.report.plain import to_plain
from unspool.lab.catalogue import find_chapter
from unspool.lab.chapter import Study
from unspool.runs.worker_process import serve_starter


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer every request until there are no more."""
    for line in requests:
        answer(json.loads(line), answers)


def answer(request: Mapping[str, Any], answers: TextIO) -> None:
    """Run the chapter of one request; whatever it raises is told, and the process lives on."""

    def say(**content: Any) -> None:
        print(json.dumps(content), file=answers, flush=True)

    begun = time.perf_counter()
    try:
        chapter = find_chapter(request["name"])
        study = Study(request["quick"], request["count"], request["first"], lambda part: say(progress=part))
        found = json.loads(json.dumps(to_plain(chapter.measure(study))))
        chapter.judge(found)
        chapter.show(found)  # numbers that cannot be judged and shown are none
        say(found=found, seconds=time.perf_counter() - begun)
    except Exception as error:
        traceback.print_exc()
        say(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    serve_starter(serve)
