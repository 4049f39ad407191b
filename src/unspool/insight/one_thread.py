"""One thread: an X-ray computes with one thread, so that it does not wait for cores that others hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, torch, the kernels and NumPy's products compute with one thread; then with as many as before.

    An X-ray consists of many small products. Two threads meet after each of them, and gain little: the same work takes
    about as long with one. Where other processes hold the cores, the one waits, after each product, until the other is
    given a core again: that made an X-ray many times slower. A shorter wait (`OMP_WAIT_POLICY`) frees the core, but
    not the thread that is waited for.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
