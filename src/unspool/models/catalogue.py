"""The only list of which model learns which task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, overload

from unspool.errors import ArgumentError, UnknownNameError
from unspool.learning.contract import Learner
from unspool.models.forecaster import Forecaster
from unspool.models.joint import JointTagger
from unspool.models.language_model import LanguageModel, make_model
from unspool.models.multilabel import MultiLabelClassifier
from unspool.models.pooled import Classifier, Regressor
from unspool.models.tagger import Tagger
from unspool.models.translator import Translator
from unspool.settings.model import (
    ForecasterSettings,
    JointSettings,
    LanguageModelSettings,
    PooledSettings,
    Seq2SeqSettings,
    TaggerSettings,
)
from unspool.tasks.batch import FIRST
from unspool.tasks.classify import Classification
from unspool.tasks.contract import Task
from unspool.tasks.forecast import Forecasting
from unspool.tasks.joint import JointTagging
from unspool.tasks.lm import LanguageModelling
from unspool.tasks.multilabel import MultiLabelClassification
from unspool.tasks.regress import Regression
from unspool.tasks.seq2seq import Translation
from unspool.tasks.tag import Tagging, permitted


def _language_model(task: LanguageModelling, settings: LanguageModelSettings) -> LanguageModel:
    return make_model(task.vocabulary, settings)


def _classifier(task: Classification, settings: PooledSettings) -> Classifier:
    return Classifier(settings, task.inputs, len(task.labels))


def _multilabel(task: MultiLabelClassification, settings: PooledSettings) -> MultiLabelClassifier:
    return MultiLabelClassifier(settings, task.inputs, len(task.labels))


def _regressor(task: Regression, settings: PooledSettings) -> Regressor:
    return Regressor(settings, task.inputs, task.scale)


def _tagger(task: Tagging, settings: TaggerSettings) -> Tagger:
    return Tagger(settings, *_count_symbols(task), permitted(task.tags, task.scheme))


def _joint_tagger(task: JointTagging, settings: JointSettings) -> JointTagger:
    return JointTagger(settings, *_count_symbols(task), permitted(task.tags, task.scheme), len(task.labels))


def _count_symbols(task: Tagging) -> tuple[int, int, int]:
    """How many words, characters and tags there are; unknown words and characters count as one each."""
    return 1 + len(task.lexicon.words), 1 + len(task.lexicon.characters), len(task.tags)


def _translator(task: Translation, settings: Seq2SeqSettings) -> Translator:
    return Translator(settings, FIRST + task.source.tokens, FIRST + task.target.tokens, task.longest)


def _forecaster(task: Forecasting, settings: ForecasterSettings) -> Forecaster:
    terms, data = task.terms, task.data
    if settings.relative_to == "season" and terms.lookback < terms.season:
        problem = f"is less than the season ({terms.season}) to which forecasts are relative"
        remedy = f"Give {terms.season} or more, or `season=1`, or `relative_to='last'`"
        raise ArgumentError.of("lookback", terms.lookback, problem, remedy)
    targets, future = len(data.target), len(data.future_covariates)
    width = targets + len(data.past_covariates) + future
    return Forecaster(settings, data.quantiles, terms.season, targets=targets, width=width, future=future)


MAKERS: Mapping[str, Callable[[Any, Any], Learner]] = MappingProxyType(
    {
        LanguageModelling.name: _language_model,
        Classification.name: _classifier,
        MultiLabelClassification.name: _multilabel,
        Regression.name: _regressor,
        Tagging.name: _tagger,
        JointTagging.name: _joint_tagger,
        Translation.name: _translator,
        Forecasting.name: _forecaster,
    }
)


@overload
def make_learner(task: LanguageModelling, settings: LanguageModelSettings) -> LanguageModel: ...
@overload
def make_learner(task: Classification, settings: PooledSettings) -> Classifier: ...
@overload
def make_learner(task: MultiLabelClassification, settings: PooledSettings) -> MultiLabelClassifier: ...
@overload
def make_learner(task: Regression, settings: PooledSettings) -> Regressor: ...
@overload
def make_learner(task: JointTagging, settings: JointSettings) -> JointTagger: ...
@overload
def make_learner(task: Tagging, settings: TaggerSettings) -> Tagger: ...
@overload
def make_learner(task: Translation, settings: Seq2SeqSettings) -> Translator: ...
@overload
def make_learner(task: Forecasting, settings: ForecasterSettings) -> Forecaster: ...
@overload
def make_learner(task: Task, settings: Any) -> Learner: ...
def make_learner(task: Task, settings: Any) -> Learner:
    """A new model for the data of a task.

    Args:
        task: The task; what its model needs is there after `restore` too.
        settings: Section `[model]` of a config.

    Returns:
        The model, on torch's default device, with initial weights from torch's random numbers.

    Example:
        task = Classification.prepare(LabelledData(files=("intents.csv",)), seed=0)
        model = make_learner(task, PooledSettings(hidden=64))
        task.evaluate(model, "validation")["accuracy"]
    """
    if task.name not in MAKERS:
        raise UnknownNameError.among("task", task.name, MAKERS)
    return MAKERS[task.name](task, settings)
