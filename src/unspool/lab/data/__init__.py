"""Generated data: the tasks on which recurrent networks are compared, in NumPy and reproducible by a seed.

Sequences of numbers are (time, batch, features) in float32, tokens (time, batch) in int64, targets have no time axis
unless there is one per step; texts are lists of strings. `unspool lab data NAME --out FILE` writes a file of any of
them.
"""

from unspool.lab.data.adding import adding as adding
from unspool.lab.data.flip_flop import flip_flop as flip_flop
from unspool.lab.data.formulas import formulas as formulas
from unspool.lab.data.linear_gaussian import linear_gaussian as linear_gaussian
from unspool.lab.data.state_tracking import counting as counting
from unspool.lab.data.state_tracking import parity as parity
from unspool.lab.data.state_tracking import permutations as permutations
from unspool.lab.data.state_tracking import word_problem as word_problem
