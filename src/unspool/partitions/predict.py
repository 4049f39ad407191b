"""Predictions for many files: one after the other, or on the workers of a Dask cluster; finished ones are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unspool.cluster import Attendance, connect
from unspool.partitions.folder import Finished, OutputFolder
from unspool.partitions.inputs import Partition, check_apart, find_partitions
from unspool.partitions.work import Job, Model, Outcome, open_model, predict_partition

if TYPE_CHECKING:
    from distributed import Client

#: Partitions per thread of a cluster that are handed out ahead: none waits, and a scheduler is not flooded.
AHEAD = 4
#: How often a partition is handed out again whose workers ended, on a cluster that gives up itself.
AGAIN = 3
#: Seconds after which it is checked whether there are workers, if no partition is finished meanwhile.
LOOK = 1.0
#: What the error of a lost cluster ends with.
KEPT = "Files that are finished are kept. Run the same command again for the others."


class Options(NamedTuple):
    """What predictions depend on beside the model and the data."""

    int8: bool = False
    top: int | None = None
    keep_columns: bool = True
    form: str | None = None  # of the output: "csv", "jsonl", "parquet"; None: that of the input where possible


class Summary(NamedTuple):
    """What became of all partitions."""

    files: int
    kept: int  # of these, finished before
    rows: int  # of the finished ones
    missing: int  # of these, rows without a prediction
    failed: Sequence[Outcome]


def predict_partitions(
    run: str | Path,
    sources: Sequence[str | Path],
    out: str | Path,
    options: Options | None = None,
    *,
    dask: str | None = None,
    tell: Callable[[Outcome, int, int], None] | None = None,
) -> Summary:
    """Predict every file of a data set with the player, without torch.

    Each input file has one output file, which appears when it is complete. A call that was cut off is repeated: what
    was finished stays, unless the input has changed. Here and on a cluster the output has the same bytes.

    Args:
        run: The folder of the run. Workers on other machines must see all folders under the same paths.
        sources: Files, folders and patterns.
        out: The folder of predictions; it holds those of one model.
        options: What else predictions depend on.
        dask: The cluster, as `unspool.cluster.connect` takes it; None: one file after the other, in this process.
        tell: Called with the outcome of each partition, how many are done and how many there are to do.

    Returns:
        How many files and rows were predicted, and which files could not be read.

    Raises:
        DataError: No file is named, or the run is none.
        ArgumentError: The folder holds predictions of another run, or other files; or there is no such cluster.

    Example:
        summary = predict_partitions("runs/intents", ["data/*.parquet"], "predictions", dask="local:2")
    """
    folder = OutputFolder(Path(os.path.abspath(out)))
    threads = None if dask is None else 1
    jobs, kept = prepare_jobs(run, sources, folder, options or Options(), threads=threads)
    outcomes = []
    for outcome in _work(jobs, dask):
        outcomes.append(outcome)
        if tell is not None:
            tell(outcome, len(outcomes), len(jobs))
    folder.clean([job.target for job in jobs])
    done = [*kept, *(outcome.finished for outcome in outcomes if outcome.finished is not None)]
    failed = sorted(outcome for outcome in outcomes if outcome.finished is None)
    rows, missing = (sum(getattr(one, name) for one in done) for name in ("rows", "missing"))
    return Summary(len(jobs) + len(kept), len(kept), rows, missing, failed)


def prepare_jobs(
    run: str | Path, sources: Sequence[str | Path], folder: OutputFolder, options: Options, *, threads: int | None = 1
) -> tuple[list[Job], list[Finished]]:
    """What is to be done, and what is finished; nothing is predicted yet.

    Args:
        run: The folder of the run.
        sources: Files, folders and patterns.
        folder: The folder of predictions, which is made, or refused where it holds something else.
        options: What else predictions depend on.
        threads: The most threads that a job uses; None: as many as there are cores.

    Returns:
        A job for each partition that is not finished, and what is known of the others.

    Example:
        jobs, kept = prepare_jobs("runs/intents", ["data"], OutputFolder(Path("predictions")), Options())
    """
    partitions = find_partitions(sources, options.form)
    check_apart(partitions, folder.path)
    model = _describe(run, options, threads)
    folder.open({"run": model.digest, "top": options.top, "keep_columns": options.keep_columns})
    found = {one: folder.find_finished(one) for one in partitions}
    jobs = [_job(model, folder, one, options) for one, finished in found.items() if finished is None]
    return jobs, [finished for finished in found.values() if finished is not None]


def _describe(run: str | Path, options: Options, threads: int | None) -> Model:
    player = open_model(run, int8=options.int8, top=options.top)
    return Model(os.path.abspath(run), player.digest.hex(), options.int8, options.top, threads)


def _job(model: Model, folder: OutputFolder, one: Partition, options: Options) -> Job:
    paths = os.path.abspath(one.path), one.form, str(folder.target(one)), str(folder.record(one))
    return Job(model, *paths, options.keep_columns)


def _work(jobs: Sequence[Job], dask: str | None) -> Iterator[Outcome]:
    """The outcome of each job, as they come."""
    if dask is None or not jobs:
        yield from map(predict_partition, jobs)
        return
    with connect(dask) as client:
        yield from distribute(jobs, client)


def distribute(jobs: Sequence[Job], client: Client) -> Iterator[Outcome]:
    """The outcome of each job on a cluster, as they come. The job of a worker that ends is done by another.

    Args:
        jobs: What to do.
        client: The cluster.

    Raises:
        ClusterError: It has had no workers for long, or is gone.
    """
    attendance, waiting = Attendance(client, KEPT), iter(jobs)
    running: dict[Any, tuple[Job, int]] = {}

    def hand_out(job: Job, attempt: int) -> None:
        # not pure: a job that is handed out again must not be answered with the failure of the first time
        running[client.submit(predict_partition, job, pure=False)] = (job, attempt)

    for job in islice(waiting, AHEAD * _count_threads(client)):
        hand_out(job, 1)
    while running:
        for future in _wait_for_some(running, attendance):
            job, attempt = running.pop(future)
            outcome = _answer(future, job, attempt, attendance)
            if outcome is None:
                hand_out(job, attempt + 1)
                continue
            for following in islice(waiting, 1):
                hand_out(following, 1)
            yield outcome


def _wait_for_some(running: Mapping[Any, Any], attendance: Attendance) -> list[Any]:
    """Those of the futures that are done, in the order in which they were handed out, as soon as one is."""
    from distributed import wait

    while True:
        try:
            done = wait(list(running), timeout=LOOK, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            attendance.count()  # raises where nobody is left to wait for
        except CancelledError as error:
            raise attendance.lost() from error
        else:
            return [future for future in running if future in done]


def _answer(future: Any, job: Job, attempt: int, attendance: Attendance) -> Outcome | None:
    """The outcome of a job; None where it is to be handed out again because its workers ended."""
    if future.status == "finished":
        outcome: Outcome = future.result()
        return outcome
    if future.cancelled():
        raise attendance.lost()
    if attempt <= AGAIN and type(future.exception()).__name__ == "KilledWorker":
        return None
    return Outcome(job.source, None, f"{job.source} cannot be predicted: {future.exception()}")


def _count_threads(client: Client) -> int:
    return sum(client.nthreads().values()) or 1
