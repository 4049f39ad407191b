"""The estimators' documentation follows from the definition of the settings."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import pytest

from unspool.errors import ArgumentError, TrainingError
from unspool.estimators import Forecaster, SequenceClassifier, SequenceRegressor, SequenceTagger
from unspool.estimators.base import Estimator
from unspool.estimators.documentation import OF_ESTIMATORS, PLACE
from unspool.settings.catalogue import find_task_settings

ESTIMATORS: tuple[type[Estimator], ...] = (Forecaster, SequenceClassifier, SequenceRegressor, SequenceTagger)
each = pytest.mark.parametrize("estimator", ESTIMATORS)


def entries(estimator: type[Estimator]) -> dict[str, tuple[str, str]]:
    """Name → types and description, of the section "Parameters" of a docstring."""
    section = re.search(r"\nParameters\n-+\n(.*?)\n\n", inspect.getdoc(estimator) or "", re.DOTALL)
    assert section is not None
    found = re.findall(r"^(\w+) : (.*)\n((?:    .*(?:\n|$))+)", section[1] + "\n", re.MULTILINE)
    return {name: (kind, " ".join(text.split())) for name, kind, text in found}


def definition(estimator: type[Estimator], name: str) -> tuple[Any, str]:
    """Default and help of a setting, as the task's section declares them."""
    task = find_task_settings(estimator.task)
    section = task.section_of(name)
    assert section is not None, f"{name} is not a setting of {task.name}"
    info = task.sections[section].model_fields[name]
    return task.defaults.get(section, {}).get(name, info.default), str(info.description)


@each
def test_every_parameter_is_a_setting_and_shown_with_its_help_and_default(estimator: type[Estimator]) -> None:
    parameters = [name for name in inspect.signature(estimator).parameters if name not in OF_ESTIMATORS]
    shown = entries(estimator)
    assert list(shown) == [*parameters, *OF_ESTIMATORS]
    for name in parameters:
        default, text = definition(estimator, name)
        kind, described = shown[name]
        assert described.lower().startswith(text.lower())
        assert kind.endswith(", optional" if default is None else f", default={default!r}")


def test_types_are_those_of_the_task() -> None:
    assert entries(SequenceClassifier)["backbone"][0] == "{'recurrent', 'bag', 'fcn', 'cnn'}, default='recurrent'"
    assert entries(SequenceTagger)["backbone"][0] == "{'recurrent', 'mlp'}, default='recurrent'"
    assert entries(SequenceTagger)["dropout"][0] == "float or {'auto'}, default=0.5"
    assert entries(Forecaster)["quantiles"][0] == "list of float, default=(0.1, 0.5, 0.9)"
    assert entries(Forecaster)["validation"][0] == "float or int, default=0.2"
    assert entries(SequenceRegressor)["layers"][0] == "int, default=2"


@each
def test_it_names_no_option_of_a_command(estimator: type[Estimator]) -> None:
    texts = [inspect.getdoc(estimator), *(inspect.getdoc(value) for _, value in inspect.getmembers(estimator))]
    assert not [text for text in texts if text and re.search(r"(?<!-)--[a-z]", text)]
    assert not [text for text in texts if text and PLACE in text]


@each
def test_its_methods_say_what_they_take_and_return(estimator: type[Estimator]) -> None:
    own = [name for name in ("fit", "predict", "predict_proba", "predict_quantiles") if hasattr(estimator, name)]
    for name in own:
        text = inspect.getdoc(getattr(estimator, name)) or ""
        assert "Parameters\n----------\nX : " in text
        assert "Returns\n-------\n" in text


DATA: dict[type[Estimator], tuple[Any, ...]] = {
    Forecaster: ([math.sin(t * t) for t in range(60)],),
    SequenceClassifier: (["ab", "ba"] * 8, ["x", "y"] * 8),
    SequenceRegressor: (["ab", "ba"] * 8, [0.0, 1.0] * 8),
    SequenceTagger: ([["a", "b"]] * 8, [["x", "y"]] * 8),
}


@each
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"hidden": 0}, r"`hidden` \(=0\)"),
        ({"lr": -1.0}, r"`lr` \(=-1.0\)"),
        ({"settings": {"rate": 0.1}}, "`rate` .*Did you mean `lr`"),
        ({"settings": {"device": "tpu"}}, r"`device` \(='tpu'\) is not available. Available: .*`device='cpu'`"),
    ],
)
def test_an_error_names_parameters_and_no_option(estimator: type[Estimator], bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        estimator(**bad).fit(*DATA[estimator])
    assert "--" not in str(caught.value)


@each
def test_a_training_that_diverges_names_parameters_and_no_option(estimator: type[Estimator]) -> None:
    settings = {"optimizer": "sgd", "clip": 0.0, "schedule": "constant"}
    with pytest.raises(TrainingError, match="Lower `lr`, or clip gradients with `clip=1`") as caught:
        estimator(hidden=4, lr=3e38, settings=settings).fit(*DATA[estimator])
    assert "--" not in str(caught.value)
