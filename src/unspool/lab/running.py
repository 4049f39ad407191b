"""Runs chapters in processes of their own, two at a time on two cores, and keeps each as soon as it is finished.

Chapters that measure time or memory run after the others, one at a time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal

from unspool.lab.chapter import Study
from unspool.lab.claims import Claim
from unspool.lab.folder import Folder, Record, make_record
from unspool.runs.worker_process import WorkerDiedError, WorkerProcess

#: The module that a process runs.
WORKER = "unspool.lab.worker"

Happening = Literal["started", "progress", "finished", "kept", "failed"]


@dataclass(frozen=True)
class Event:
    """What has happened to a chapter.

    Attributes:
        kind: `started`, `progress`, `finished`, `kept` (it was finished before) or `failed`.
        claim: whose chapter.
        fraction: of the chapter that is done.
        record: of a finished chapter.
        problem: why it failed.
    """

    kind: Happening
    claim: Claim
    fraction: float = 0.0
    record: Record | None = None
    problem: str = ""


Tell = Callable[[Event], None]


def run_chapters(
    claims: Sequence[Claim], study: Study, folder: Folder, tell: Tell, again: bool = False, jobs: int | None = None
) -> list[Event]:
    """Run chapters and keep them in a folder.

    Args:
        claims: whose chapters to run.
        study: how thoroughly.
        folder: where they are kept; those that it has of the same study are not run again.
        tell: is told every event, from several threads.
        again: whether to run finished chapters again.
        jobs: processes at a time; by default one per core.

    Returns:
        The last event of each chapter, in the order of `claims`.
    """
    last: dict[str, Event] = {}

    def note(event: Event) -> None:
        last[event.claim.name] = event
        tell(event)

    waiting = []
    for claim in claims:
        kept = None if again else finished(folder, claim, study)
        if kept is None:
            waiting.append(claim)
        else:
            note(Event("kept", claim, 1.0, kept))
    together = jobs or count_cores()
    # the longest first, so that no process is left alone with a long one at the end
    waiting.sort(key=lambda claim: -claim.seconds[0 if study.quick else 1])
    crew = Crew(study, folder, note)
    crew.run([claim for claim in waiting if not claim.alone], together, threads=1)
    crew.run([claim for claim in waiting if claim.alone], 1, threads=None)
    return [last[claim.name] for claim in claims]


def count_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finished(folder: Folder, claim: Claim, study: Study) -> Record | None:
    """The chapter as it was finished before, if that was the same study."""
    record = folder.read(claim.name)
    wanted = (study.quick, study.number, study.first)
    return record if record is not None and (record.quick, record.count, record.first) == wanted else None


class Crew:
    """Processes that take chapters from a queue until it is empty."""

    def __init__(self, study: Study, folder: Folder, tell: Tell) -> None:
        self.study, self.folder, self.tell = study, folder, tell
        self.workers: list[WorkerProcess] = []
        self.stopped = False

    def run(self, claims: Sequence[Claim], jobs: int, threads: int | None) -> None:
        """Run these chapters, `jobs` at a time; an exception, such as Ctrl-C, ends the processes."""
        queue = deque(claims)
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            try:
                futures = [pool.submit(self.work, queue, threads) for _ in claims[:jobs]]
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                self.stopped = True
                queue.clear()
                for worker in self.workers:
                    worker.kill()
                raise

    def work(self, queue: deque[Claim], threads: int | None) -> None:
        """Take chapters until there are none; a process that dies takes one chapter with it, no more."""
        while queue:
            with WorkerProcess(WORKER, threads) as worker:
                self.workers.append(worker)
                self.run_with(worker, queue)

    def run_with(self, worker: WorkerProcess, queue: deque[Claim]) -> None:
        """Have one process run chapters, as long as it lives."""
        while queue:
            try:
                claim = queue.popleft()
            except IndexError:  # another thread was faster
                return
            self.tell(Event("started", claim))
            try:
                self.tell(self.take(worker, claim))
            except WorkerDiedError as died:
                if not self.stopped:  # else it was ended on purpose
                    self.tell(Event("failed", claim, problem=str(died)))
                return

    def take(self, worker: WorkerProcess, claim: Claim) -> Event:
        """Have one chapter run; the event with which it ends."""
        study = self.study
        request = {"name": claim.name, "quick": study.quick, "count": study.number, "first": study.first}
        for answer in worker.ask(request):
            if "error" in answer:
                return Event("failed", claim, problem=str(answer["error"]))
            if "found" in answer:
                record = make_record(claim.name, study, answer["seconds"], answer["found"])
                self.folder.write(record)
                return Event("finished", claim, 1.0, record)
            self.tell(Event("progress", claim, float(answer["progress"])))
        raise WorkerDiedError(worker.last_words())
