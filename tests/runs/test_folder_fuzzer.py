"""Mutated run folders: every one is refused in clear words, or gives what the run gives."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runs import folder_fuzzer, small_folders
from tests.runs.folder_fuzzer import Finding, examine, fuzz
from tests.runs.small_folders import TASKS, Subject, make_subject

from unspool.tasks import lm as language_model

#: A folder is mutated in so many ways in the quick part, and in the long one, which as many processes share.
FEW, MANY, WORKERS = 45, 6000, 2
#: A file system in memory, where there is one.
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("subjects")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(folder / "cache"))
        patch.setenv("UNSPOOL_ENGINE", "off")
        patch.setattr(language_model, "SAMPLE", 10)
        patch.setattr(language_model, "LINE", 10)
        yield [make_subject(folder / task.replace(" ", "-"), task) for task in TASKS]


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def test_mutated_folders_of_every_task(subjects: list[Subject], quick_folder: Path) -> None:
    assert fuzz(subjects, range(FEW), quick_folder) == []


@pytest.mark.long
def test_many_mutated_folders_of_every_task(subjects: list[Subject], quick_folder: Path) -> None:
    assert fuzz(subjects, range(FEW, FEW + MANY), quick_folder, workers=WORKERS) == []


def test_several_processes_examine_every_seed_once(
    subjects: list[Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_fuzzer, "work", find_always)
    found = fuzz(subjects, range(11), tmp_path, workers=3)
    assert [(finding.seed, finding.words) for finding in found] == [(seed, f"worker-{seed % 3}") for seed in range(11)]


def test_the_fuzzer_notices_other_results_traces_and_escapes(
    subjects: list[Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(subject: Subject, run: Path) -> str:
        raise KeyError("step")

    def write_outside(subject: Subject, run: Path) -> str:
        (run.parent / "outside" / "precious.txt").write_text("gone")
        return subject.expected["xray"]

    monkeypatch.setitem(small_folders.ACTIONS, "predict", lambda subject, run: "something else")
    monkeypatch.setitem(small_folders.ACTIONS, "evaluate", fail)
    monkeypatch.setitem(small_folders.ACTIONS, "xray", write_outside)
    for seed in range(100):  # one that the model does not depend on, and whose checksums were not forged
        found = examine(subjects[0], seed, tmp_path, thoroughly=True)
        kinds = Counter(finding.kind for finding in found)
        if kinds["silent"]:
            break
    assert kinds == {"silent": 1, "raw": 1, "escaping": 1}
    assert "KeyError: 'step'" in str(found)
    assert os.path.join("outside", "precious.txt") in str(found)


def test_the_fuzzer_notices_what_hangs_and_what_ends_the_process(
    subjects: list[Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_fuzzer, "PATIENCE", 2.0)
    monkeypatch.setattr(folder_fuzzer, "work", stumble)
    found = fuzz(subjects, range(4), tmp_path)
    assert [(finding.seed, finding.kind) for finding in found] == [(1, "hung"), (2, "raw")]


def stumble(subjects: list[Subject], seeds: list[int], folder: Path, every: int, say: Any) -> None:
    """Hangs at seed 1, and ends at seed 2."""
    for seed in seeds:
        if seed == 1:
            time.sleep(60)
        if seed == 2:
            os._exit(3)
        say.send((seed, []))
    say.close()


def find_always(subjects: list[Subject], seeds: list[int], folder: Path, every: int, say: Any) -> None:
    """Finds something at every seed."""
    for seed in seeds:
        say.send((seed, [Finding(seed, "", "", "raw", folder.name)]))
    say.close()
