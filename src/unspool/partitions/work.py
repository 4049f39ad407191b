"""What is done for one partition, here or in a worker of a cluster: read, predict with the player, write, note it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from unspool.errors import ArgumentError, DataError, DivergenceError, UnspoolError
from unspool.partitions.folder import Finished, write_record
from unspool.partitions.inputs import find_empty, fingerprint, read_stamp
from unspool.partitions.tables import check_records, choose_top
from unspool.partitions.writers import WRITERS
from unspool.runtime.run_player import RunPlayer, load
from unspool.storage.files import make_folder, replacing
from unspool.tasks.tolerant import NOTE

#: Rows that are encoded and predicted at a time.
CHUNK = 2048
#: A text that every model of texts has a prediction for.
EXAMPLE = "a"


class Model(NamedTuple):
    """The model that predicts, and how."""

    run: str  # an absolute path, which workers on other machines must have, too
    digest: str  # of the model, so that one that was trained further meanwhile is noticed
    int8: bool = False
    top: int | None = None
    threads: int | None = 1


class Job(NamedTuple):
    """A partition to predict; all paths are absolute."""

    model: Model
    source: str
    form: str  # a key of `WRITERS`
    target: str
    record: str
    keep: bool = True


class Outcome(NamedTuple):
    """What became of a partition."""

    source: str
    finished: Finished | None
    problem: str = ""  # why it is not finished
    seconds: float = 0.0


#: The models that the threads of this process have loaded, one each: a player is used by one thread at a time.
_loaded = threading.local()


def open_model(run: str | Path, *, int8: bool = False, top: int | None = None, threads: int | None = None) -> RunPlayer:
    """Load a model that predicts tables; refused where it generates text.

    Args:
        run: The folder of the run.
        int8: As for `runtime.run_player.load`.
        top: How many of the best labels are predicted; None: as the task has it.
        threads: As for `runtime.run_player.load`.
    """
    player = load(run, int8=int8, threads=threads)
    if player.task.generates:
        problem = f"is of the task {player.task.name}, which predicts no table"
        raise ArgumentError.of("run", str(run), problem, "Generate text with it instead: `generate`")
    if top is not None:
        choose_top(player.task, top)
    return player


def predict_partition(job: Job) -> Outcome:
    """Predict one partition. It is finished when this returns, or has not changed anything.

    Doing it twice, also at the same time, gives the same bytes.

    Args:
        job: Which, with what, and where to.

    Returns:
        How many rows were predicted, or why they were not: a file that cannot be read does not stop the others.
    """
    started = time.perf_counter()
    try:
        finished, problem = _predict(job), ""
    except (UnspoolError, OSError) as error:
        finished, problem = None, str(error)
    return Outcome(job.source, finished, problem, time.perf_counter() - started)


def _predict(job: Job) -> Finished:
    player, source, target = _load(job.model), Path(job.source), Path(job.target)
    known = fingerprint(source)
    make_folder(target.parent)
    with replacing(target) as stream:
        try:
            finished = _write(player, job, stream)
        except DivergenceError as error:
            raise player.diverged(error) from error
        if read_stamp(source) != known["stamp"]:
            raise DataError(f"{source} was changed while it was read. Try again when it is complete.")
    write_record(Path(job.record), target, known, finished)
    return finished


def _write(player: RunPlayer, job: Job, stream: BinaryIO) -> Finished:
    """Write the predictions, chunk by chunk; every file has a column for notes, so that all have the same columns."""
    task: Any = player.task
    writer = WRITERS[job.form](stream, (*task.prediction_columns, NOTE), job.keep)
    if (empty := find_empty(Path(job.source))) is not None:
        writer.add_empty(empty, _predict_one(player))
        writer.finish()
        return Finished(0, 0)
    rows = missing = 0
    for chunk in task.predict_chunks(player.model, job.source, CHUNK):
        check_records(chunk.predicted, rows + 1)
        writer.add(chunk)
        rows += len(chunk.predicted)
        missing += sum(NOTE in record for record in chunk.predicted)
    writer.finish()
    return Finished(rows, missing)


def _predict_one(player: RunPlayer) -> dict[str, Any]:
    """A prediction, for the types of its columns; none where a task predicts no text."""
    with suppress(UnspoolError):
        return next(iter(player.task.predict_texts(player.model, [EXAMPLE])), {})
    return {}


def _load(model: Model) -> RunPlayer:
    """The player of a model, loaded once per thread."""
    if getattr(_loaded, "model", None) != model:
        player = open_model(model.run, int8=model.int8, top=model.top, threads=model.threads)
        if player.digest.hex() != model.digest:
            problem = "has another model than when the predictions were started"
            raise ArgumentError.of("run", model.run, problem, "Start again, with another folder for the predictions")
        _loaded.model, _loaded.player = model, player
    found: RunPlayer = _loaded.player
    return found
