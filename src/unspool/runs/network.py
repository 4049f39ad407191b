"""The model of a run as data: `network.json`, from which the run is played and exported without torch."""

from __future__ import annotations

import json

from unspool.learning.contract import Learner
from unspool.learning.run_folder import RunFolder
from unspool.models.describe import describe, has_network


def keep_network(folder: RunFolder, learner: Learner, task: str) -> None:
    """Write network.json into the folder of a run, unless it is there already; baselines without memory have none.

    Args:
        folder: Of the run; what weights are made with is known.
        learner: The model.
        task: The name of its task.
    """
    if not has_network(learner):
        return
    document = json.loads(json.dumps(describe(learner, task)))  # as it will be read
    if not folder.holds_network(document):
        folder.write_network(document)
