"""How processes that torchrun starts again find each other: under a name that those of the last start do not know.

torchrun keeps its store when it starts processes again, and in it the addresses of those that have died. A process that
reads one of these waits for the dead. The count of restarts cannot tell them apart: it differs between machines.
"""

from __future__ import annotations

import os
import secrets
import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # documented

#: The key under which the first process writes the name of this start.
NAME = "unspool"
#: Seconds between two looks at the store.
LOOK = 0.05


def find_store(timeout: timedelta) -> Store | None:
    """The store of this start, if torchrun's agents have one; None: processes meet in another way."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    # Not above: a torch that was built without its distributed part has neither.
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # documented

    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(*address, is_master=False, timeout=timeout, wait_for_workers=False)
    name = agree(store, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    return PrefixStore(f"{NAME}/{name}", store)


def agree(store: Store, rank: int, count: int) -> str:
    """A name on which the processes of one start agree, whatever earlier ones have left in a store.

    The first process draws it. The others cannot know whether the name they read is new: each calls under it with a
    number of its own, and goes on when the first has answered with that number.

    Args:
        store: Which all of them reach.
        rank: Of this process.
        count: Of processes.

    Returns:
        The name, the same in all processes.
    """
    own = secrets.token_hex(8)
    if rank:
        return _follow(store, rank, own)
    store.set(NAME, own)
    for other in range(1, count):
        store.set(_answer(own, other), store.get(_call(own, other)).decode())
    return own


def _follow(store: Store, rank: int, own: str) -> str:
    while True:
        name = store.get(NAME).decode()
        store.set(_call(name, rank), own)
        answer = _answer(name, rank)
        if store.check([answer]) and store.get(answer).decode() == own:
            return name
        time.sleep(LOOK)


def _call(name: str, rank: int) -> str:
    return f"{NAME}/{name}/{rank}"


def _answer(name: str, rank: int) -> str:
    return f"{NAME}/{name}/{rank}/heard"
