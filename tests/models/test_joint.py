"""The joint model is a tagger and a classifier over one encoder: its loss is the sum of theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.tasks.slot_folders import travel_lines
from tests.tensors import as_tensors
from torch.nn import functional

from unspool.data.tagged import Sentence
from unspool.errors import DataWarning
from unspool.models.catalogue import make_learner
from unspool.models.tagger import Tagger
from unspool.settings.data import TaggedData
from unspool.settings.model import JointSettings
from unspool.tasks.batch import UNSEEN, JointTargets
from unspool.tasks.joint import JointTagging
from unspool.tasks.tag import Sentences


def small_task() -> JointTagging:
    lines = [[part.split() for part in line] for line in travel_lines(12)]
    sentences = Sentences(
        Sentence(tuple(words), tuple(tags), number, None, label=label[0])
        for number, (words, tags, label) in enumerate(lines)
    )
    raws = {"training": sentences, "validation": sentences}
    return JointTagging.of(raws, TaggedData(files=("memory",)), digest="", seed=0)


def test_the_loss_is_that_of_the_tags_and_that_of_the_labels() -> None:
    task = small_task()
    learner = make_learner(task, JointSettings(hidden=6, char_hidden=3, dropout=0.0, word_dropout=0.0)).eval()
    batch = as_tensors(task.parts["training"].batch(np.arange(5)))
    scores = learner.score(batch).levels[-1]
    of_tags = Tagger.summed_loss(learner, scores.tags, batch._replace(targets=batch.targets.tags))
    of_labels = functional.nll_loss(scores.labels.log_softmax(-1), batch.targets.labels, reduction="sum")
    assert torch.allclose(learner.summed_loss(scores, batch), of_tags + of_labels, rtol=1e-6)
    unknown = JointTargets(batch.targets.tags, torch.full_like(batch.targets.labels, UNSEEN))
    assert torch.allclose(learner.summed_loss(scores, batch._replace(targets=unknown)), of_tags, rtol=1e-6)


def test_a_sentence_with_an_unseen_tag_has_no_part_in_the_loss() -> None:
    task = small_task()
    learner = make_learner(task, JointSettings(hidden=6, char_hidden=3, dropout=0.0, word_dropout=0.0)).eval()
    known, odd = task.parts["training"].sentences.take(np.arange(2))
    odd = replace(odd, tags=("O", "O", "O", "O", "B-new", "O", "O"))
    with pytest.warns(DataWarning, match="B-new"):
        part = task.part(Sentences([known, odd]))
    found = task.evaluate_part(learner, part)
    assert found["loss"] == pytest.approx(task.evaluate_part(learner, task.part(Sentences([known])))["loss"])
    alone = as_tensors(part.batch(np.array([1])))
    assert float(learner.summed_loss(learner.score(alone).levels[-1], alone).detach()) == 0.0


def test_both_losses_reach_the_encoder_and_the_other_head_stays_out() -> None:
    task = small_task()
    learner = make_learner(task, JointSettings(hidden=6, char_hidden=3, dropout=0.0))
    batch = as_tensors(task.parts["training"].batch(np.arange(5)))
    learner(batch).loss.backward()
    gradients = {name: parameter.grad for name, parameter in learner.named_parameters()}
    for name in ("heads.0.weight", "label_heads.0.weight", "words.embedding.weight"):
        found = gradients[name]
        assert found is not None
        assert float(found.abs().sum()) > 0


def test_every_setting_of_init_reaches_the_heads_of_labels() -> None:
    learner = make_learner(small_task(), JointSettings(hidden=6, char_hidden=3, init=0.01))
    assert float(max(parameter.detach().abs().max() for parameter in learner.parameters())) <= 0.01
