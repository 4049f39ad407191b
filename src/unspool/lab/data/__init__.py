"""Generated data: the tasks on which recurrent networks are compared, in NumPy and reproducible by a seed.

Sequences of numbers are (time, batch, features) in float32, tokens (time, batch) in int64, targets have no time axis
unless there is one per step. `unspool lab data NAME --out FILE` writes a file of any of them.
"""

from unspool.lab.data.adding import adding as adding
from unspool.lab.data.copy_memory import copy_memory as copy_memory
from unspool.lab.data.lorenz import lorenz as lorenz
from unspool.lab.data.teacher import teacher as teacher
from unspool.lab.data.two_scales import two_scales as two_scales
