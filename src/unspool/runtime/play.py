"""From a network to what plays it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unspool.runtime.forecaster import ForecasterPlayer
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.network import Array, Forecaster, Language, Network, Pooled, Tagger
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.player import Player
from unspool.runtime.pooled import PooledPlayer
from unspool.runtime.rounding import round_network
from unspool.runtime.tagger import TaggerPlayer
from unspool.runtime.translator import TranslatorPlayer


def make_player(
    network: Network,
    *,
    allowed: NDArray[np.bool_] | None = None,
    undo: Callable[[Array], Array] | None = None,
    options: PlayOptions = PLAIN,
) -> Player:
    """Make the player of a network.

    Args:
        network: What `read_network` gives.
        allowed: For a tagger: which tags may follow which, see `ChainPlayer`.
        undo: For numbers: from standardized predictions to those of the data.
        options: How it is played.

    Returns:
        A LanguagePlayer, or an ExamplePlayer with `score`, `summed_loss` and `predictions`.

    Example:
        player = make_player(read_network(document, tensors))
    """
    network = round_network(network) if options.int8 else network
    if isinstance(network, Language):
        return LanguagePlayer(network, options)
    if isinstance(network, Pooled):
        return PooledPlayer(network, undo, options)
    if isinstance(network, Tagger):
        return TaggerPlayer(network, allowed, options)
    return ForecasterPlayer(network, options) if isinstance(network, Forecaster) else TranslatorPlayer(network, options)
