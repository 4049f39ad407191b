"""The study: settings that depend on the seed and the number alone, in one file that survives a kill at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.made_up import BASE, SPACES, make_study

from unspool.sweeps.folder import SweepFolder
from unspool.sweeps.study import seed_of


def ask_all(folder: SweepFolder, count: int, reopen: bool, sampler: str = "random") -> list[dict[str, Any]]:
    """The settings of so many trials, from one study or from one that is opened again for each."""
    study = make_study(folder, sampler)
    found = []
    for number in range(count):
        trial = study.ask()
        assert trial.number == number
        found.append(trial.params)
        study.finish(trial, float(trial.params["hidden"]))
        study = make_study(folder, sampler) if reopen else study
    return found


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_resumed_study_proposes_the_same(tmp_path: Path, sampler: str) -> None:
    whole = ask_all(SweepFolder(tmp_path / "a"), 14, False, sampler)
    assert ask_all(SweepFolder(tmp_path / "b"), 14, True, sampler) == whole
    assert len({str(one) for one in whole}) == 14
    for one in whole:
        assert all(space.holds(one[name]) for name, space in SPACES.items())


def test_random_settings_do_not_depend_on_what_trials_reached(tmp_path: Path) -> None:
    study = make_study(SweepFolder(tmp_path / "b"))
    trials = [study.ask() for _ in range(5)]  # none of them is finished
    assert [trial.params for trial in trials] == ask_all(SweepFolder(tmp_path / "a"), 5, False)


def test_seeds_of_neighboring_sweeps_and_trials_differ() -> None:
    assert len({seed_of(seed, number) for seed in range(30) for number in range(30)}) == 900


def test_fixed_settings_are_kept(tmp_path: Path) -> None:
    study = make_study(SweepFolder(tmp_path), "tpe")
    assert study.ask(BASE).params == BASE
    assert study.ask().params != BASE


def test_a_journal_cut_at_any_byte_is_read_and_gives_the_same_settings(tmp_path: Path) -> None:
    """A kill may leave any beginning of the file; whatever it is, the second trial's settings are the same."""
    folder = SweepFolder(tmp_path / "a")
    study = make_study(folder)
    study.finish(study.ask(), 1.0)
    first = len(folder.study.read_bytes())
    expected = study.ask().params
    content = folder.study.read_bytes()
    for size in {*range(first, len(content), 37), len(content) - 1, len(content)}:
        other = SweepFolder(tmp_path / str(size))
        other.path.mkdir()
        other.study.write_bytes(content[:size])
        again = make_study(other)
        left = [one for one in again.trials() if one.state.name == "RUNNING"]
        trial = again.take_up(left[0]) if left else again.ask()
        assert (trial.number, trial.params) == (1, expected)


def test_a_lock_that_a_kill_left_does_not_block(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    study = make_study(folder)
    (tmp_path / "study.log.lock").symlink_to(folder.study)
    study = make_study(folder)
    assert study.ask().number == 0


def test_evaluations_are_told_once_and_a_trial_below_the_median_is_behind(tmp_path: Path) -> None:
    study = make_study(SweepFolder(tmp_path))
    for _ in range(6):
        trial = study.ask()
        assert not study.report(trial, [0.5, 0.6, 0.7])
        assert not study.report(trial, [0.5, 0.6, 0.7, 0.8])
        study.finish(trial, 0.8)
    trial = study.ask()
    assert not study.report(trial, [0.1, 0.1])  # the first two evaluations end no trial
    assert study.report(trial, [0.1, 0.1, 0.1])
    assert study.trials()[6].intermediate_values == {0: 0.1, 1: 0.1, 2: 0.1}


def test_the_setting_that_decides_is_the_most_important(tmp_path: Path) -> None:
    study = make_study(SweepFolder(tmp_path))
    assert study.importance() == {}
    for _ in range(40):
        trial = study.ask()
        study.finish(trial, float(trial.params["hidden"]))
    found = study.importance()
    assert max(found, key=lambda name: found[name]) == "hidden"
    assert sum(found.values()) == pytest.approx(1)
