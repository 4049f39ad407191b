"""Estimators in scikit-learn's manner, for sequences in memory; they need the extra unspool[sklearn]."""

from importlib import import_module as _import_module

try:
    _import_module("sklearn")
except ImportError as _error:
    raise ImportError("unspool.estimators needs scikit-learn. Run: pip install 'unspool[sklearn]'.") from _error

from unspool.estimators.classifier import SequenceClassifier as SequenceClassifier
from unspool.estimators.forecaster import Forecaster as Forecaster
from unspool.estimators.regressor import SequenceRegressor as SequenceRegressor
from unspool.estimators.tagger import SequenceTagger as SequenceTagger
