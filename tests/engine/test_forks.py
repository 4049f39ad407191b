"""Kernels in the child of a fork, whatever the parent had done before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.engine.agreement import needs_compiler

pytestmark = needs_compiler

CHILD = """
import faulthandler, os, sys, threading
import torch
from unspool import nn
from unspool.engine import build
torch.set_num_threads(2)
layer, x = nn.Recurrent("elman", 64, 128), torch.randn(100, 32, 64)
layer.engine                                     # built, but not yet called
torch.randn(4_000_000).exp()                     # torch's threads are there
if sys.argv[1] == "building":
    build._Building.lock.acquire()               # as another thread would at this moment
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(30, exit=True)
    with torch.no_grad():
        if sys.argv[1] == "several layers":
            nn.Stack("elman", 64, 64, 2)(x[:, :1])   # the first call of all: layers at once, in threads
        layer(x)
        nn.Recurrent("elman-relu", 3, 4).engine
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("moment", ["idle", "building", "several layers"])
def test_a_child_is_not_held_up(moment: str) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", CHILD, moment], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
