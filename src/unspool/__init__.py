"""unspool: write the recurrence once; train it fast, see inside it, run it anywhere."""

import sys

if sys.argv[:1] == ["-m"]:  # Python looks for what it is to run, perhaps this package: torch takes seconds
    from unspool_command import listen_if_run_as_module

    listen_if_run_as_module()
    del listen_if_run_as_module

from unspool import cells as cells
from unspool import engine as engine
from unspool import errors as errors
from unspool import exchange as exchange
from unspool import learning as learning
from unspool import nn as nn
from unspool.cells import Cell as Cell
from unspool.cells import sigmoid as sigmoid
from unspool.cells import tanh as tanh
from unspool.insight.xray import xray as xray
from unspool.nn.accelerate import accelerate as accelerate
from unspool.nn.accelerate import restore as restore
from unspool.tasks.train import train as train

__version__ = "0.1.0"
