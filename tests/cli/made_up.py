"""A run that never was, for the views to show; and a stream that closes."""

from __future__ import annotations

import io
import math

from unspool.learning.events import Evaluated, Finished, Started, Stepped

NAN, INF = math.nan, math.inf


def of_loss(loss: float) -> dict[str, float]:
    """A language model's figures."""
    return {"loss": loss, "perplexity": math.exp(loss), "bits": loss / math.log(2)}


STARTED = Started(
    run="runs/hamlet",
    task="text",
    plan={"data": "hamlet.txt, 180,000 characters", "model": "2 × LSTM of 256"},
    parameters=1_234_567,
    unit="characters",
    step=0,
    steps=1000,
    baselines={"unigram": of_loss(3.32), "bigram": of_loss(2.45)},
)
NOW = (400, 0.8, 0.4)  # step, epoch, and the fraction of all training
STEPPED = Stepped(
    *NOW,
    loss=1.8734,
    lr=0.002,
    speed=24310.2,
    seconds=48.2,
    remaining=72.4,
    norm=0.8431,
    clipped=0.031,
)
SAMPLE = "To be, or not\n\tto be"
EVALUATED = Evaluated(
    *NOW,
    seconds=48.2,
    training=1.8734,
    validation={"loss": 1.9, "perplexity": 6.6859, "bits": 2.7411},
    best=True,
    sample=SAMPLE,
)
FINISHED = Finished(
    step=1000,
    seconds=120.0,
    reason="done",
    run="runs/hamlet",
    best_step=800,
    validation=of_loss(1.5),
    test=of_loss(1.6),
    baselines={"unigram": of_loss(3.32), "bigram": of_loss(2.45)},
    sample=SAMPLE,
    prompt="Hamlet",
    advice="The model overfits: regularize it.",
    proposal={"dropout": 0.2},
    flawed=True,
)
HOSTILE = "[bold]bold[/bold] :smile: \x1b[31mred\x1b[0m \x07\r\x9b2J \u202eback \ud800 end\x7f"
SHOWN = "[bold]bold[/bold] :smile: ␛[31mred␛[0m ␇␍\ufffd2J \ufffdback \ufffd end␡"
CHINESE = "满纸荒唐言，一把辛酸泪！都云作者痴，谁解其中味？" * 4


class Closing(io.StringIO):
    """A stream that nobody reads any more, from some moment on."""

    error: OSError | None = None

    def write(self, text: str) -> int:
        if self.error is not None:
            raise self.error
        return super().write(text)
