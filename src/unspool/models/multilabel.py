"""Model of label sets: a probability for each label by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn import functional

from unspool.models.pooled import PooledModel
from unspool.tasks.batch import Batch


class MultiLabelClassifier(PooledModel):
    """log P(labels | sequence) = Σ log P(label or not | sequence): each label is decided by itself."""

    def summed_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.binary_cross_entropy_with_logits(scores, batch.targets, reduction="sum")

    def predictions(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.cpu().double().sigmoid().numpy())
