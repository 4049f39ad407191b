"""From equations to numbers without torch: a plain reference in NumPy, and compiled kernels."""

from unspool.engine.build import enabled as enabled
from unspool.engine.emit import record_length as record_length
from unspool.engine.kernel import Kernel as Kernel
from unspool.engine.reference import run as run
