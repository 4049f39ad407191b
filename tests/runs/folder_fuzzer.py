"""The fuzzer of run folders: uses mutated copies of small runs in other processes, and judges what comes of it.

A finding is *silent* (another result, and no error), *raw* (an exception that is not one of unspool's), *hung*, or
*escaping* (something outside the folder was changed).
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from tests.learning.small_runs import pipe, start
from tests.runs.mutations import Mutation, mutate
from tests.runs.small_folders import ACTIONS, Subject, quick

from unspool.errors import UnspoolError

#: Seconds that the use of a mutated folder may take, and bytes of memory beyond what the process has.
PATIENCE, MEMORY = 20.0, 3 << 30
PRECIOUS = "irreplaceable\n" * 100


class Finding(NamedTuple):
    """Something wrong: the seed that repeats it, what was done, and what came of it."""

    seed: int
    task: str
    mutation: str
    kind: str
    words: str


def fuzz(
    subjects: Sequence[Subject], seeds: Sequence[int], folder: Path, every: int = 3, workers: int = 1
) -> list[Finding]:
    """Use one mutated folder for each seed; every n-th is X-rayed and resumed too, which takes longer.

    Args:
        subjects: The runs, which take turns.
        seeds: One for each mutation.
        folder: Where the copies are made; in memory it is several times faster than on a disk.
        every: How many folders there are for each that is X-rayed and resumed.
        workers: How many processes share the work. A process makes one mutation after the other.

    Returns:
        The findings, by seed.
    """
    shares = [seeds[number::workers] for number in range(workers)]
    folders = [folder / f"worker-{number}" for number in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        found = pool.map(_fuzz_alone, repeat(subjects), shares, folders, repeat(every))
        return sorted(finding for own in found for finding in own)


def _fuzz_alone(subjects: Sequence[Subject], seeds: Sequence[int], folder: Path, every: int) -> list[Finding]:
    """What a single process finds, and another in its place where it hangs or ends."""
    left, found = list(seeds), []
    while left:
        own, theirs = pipe()
        process = start(work, subjects, left, folder, every, theirs)
        theirs.close()
        for seed, findings in _hear(own, PATIENCE):
            left = left[left.index(seed) + 1 :]
            found += findings
        if process.is_alive() or process.exitcode:
            process.join(1)
            kind = "hung" if process.is_alive() else "raw"
            process.kill()
            process.join()
            if left:
                found.append(Finding(left[0], "", "", kind, f"the process ended with {process.exitcode}"))
            left = left[1:]
        else:
            process.join()
    return found


def _hear(own: Any, patience: float) -> Iterator[tuple[int, list[Finding]]]:
    """What a process says, until it says nothing for too long or has ended."""
    patient = 5 * patience  # the first time, as it has to start
    while own.poll(patient):
        try:
            yield own.recv()
        except EOFError:
            return
        patient = patience


def work(subjects: Sequence[Subject], seeds: Sequence[int], folder: Path, every: int, say: Any) -> None:
    """What such a process does."""
    quick()
    os.environ["UNSPOOL_ENGINE"] = "off"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for seed in seeds:
        subject = subjects[seed % len(subjects)]
        say.send((seed, examine(subject, seed, folder, thoroughly=seed // len(subjects) % every == 0)))
    say.close()


def examine(subject: Subject, seed: int, folder: Path, thoroughly: bool) -> list[Finding]:
    """Mutate a copy of a run, use it, and judge."""
    sandbox = folder / "sandbox"
    shutil.rmtree(sandbox, ignore_errors=True)
    run, outside = sandbox / "run", sandbox / "outside"
    shutil.copytree(subject.run, run)
    (outside / "folder").mkdir(parents=True)
    (outside / "precious.txt").write_text(PRECIOUS)
    (outside / "folder" / "step-000000002.safetensors").write_text(PRECIOUS)
    (outside / "folder" / ".x-0123abcd").write_text(PRECIOUS)
    mutation = mutate(run, subject.other, outside, random.Random(seed))
    before = _snapshot(sandbox, subject)
    problems = [_use(subject, run, name, mutation) for name in _actions(subject, run, thoroughly)]
    found = [Finding(seed, subject.task, mutation.words, *problem) for problem in problems if problem]
    if changed := _changed(before, _snapshot(sandbox, subject)):
        found.append(Finding(seed, subject.task, mutation.words, "escaping", f"{changed} changed"))
    return found


def _actions(subject: Subject, run: Path, thoroughly: bool) -> list[str]:
    """What to do with a folder: where the model is refused, only what does not begin by loading it."""
    try:
        ACTIONS["load"](subject, run)
    except UnspoolError:
        return ["resume"] if thoroughly else []
    except Exception:
        return ["load"]
    return [name for name in ACTIONS if thoroughly or name not in ("resume", "xray")]


def _use(subject: Subject, run: Path, name: str, mutation: Mutation) -> tuple[str, str] | None:
    try:
        result = ACTIONS[name](subject, run)
    except UnspoolError:
        return None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "raw", f"{name}: {type(error).__name__}: {error!s:.200} ({last.filename}:{last.lineno})"
    same = result == subject.expected[name]
    return None if same or mutation.forged or mutation.legal else ("silent", f"{name} gives another result")


def _snapshot(sandbox: Path, subject: Subject) -> dict[str, Any]:
    """Everything outside the run's folder: files by their content, those of the subject by size and time of change."""
    near = {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in _files(sandbox / "outside")}
    far = {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in _files(subject.run.parent)}
    return {**near, **far, str(sandbox): sorted(os.listdir(sandbox))}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
