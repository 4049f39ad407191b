"""Estimators in scikit-learn's manner, for sequences in memory; they need the extra unspool[sklearn]."""

from importlib import import_module as _import_module

from unspool.errors import MissingPackageError as _MissingPackageError

with _MissingPackageError.explaining("unspool.estimators"):
    _import_module("sklearn")

from unspool.estimators.classifier import SequenceClassifier as SequenceClassifier
from unspool.estimators.forecaster import Forecaster as Forecaster
from unspool.estimators.regressor import SequenceRegressor as SequenceRegressor
from unspool.estimators.tagger import SequenceTagger as SequenceTagger
