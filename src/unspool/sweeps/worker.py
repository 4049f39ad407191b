"""A process that trains trials for another: `python -m unspool.sweeps.worker`.

It reads orders from standard input and answers each on standard output, one JSON object per line.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, TextIO

from unspool.runs.worker_process import serve_starter
from unspool.sweeps.trial import Answer, Order, run_trial


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer every order until there are no more."""
    for line in requests:
        print(json.dumps(answer(json.loads(line)).as_json()), file=answers, flush=True)


def answer(request: Mapping[str, Any]) -> Answer:
    """Train one trial; whatever it raises is the trial's problem, and the process lives on."""
    try:
        return run_trial(Order(**request))
    except Exception as error:
        traceback.print_exc()
        return Answer(problem=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # they were shown once, when the sweep read the data
    serve_starter(serve)
