"""Generated data: the tasks on which recurrent networks are compared, in NumPy and reproducible by a seed.

Sequences of numbers are (time, batch, features) in float32, tokens (time, batch) in int64, targets have no time axis
unless there is one per step; texts are lists of strings. The command `unspool lab data` writes a file of
any of them.
"""

from unspool.lab.data.adding import adding as adding
from unspool.lab.data.copy_memory import copy_memory as copy_memory
from unspool.lab.data.digits import digits as digits
from unspool.lab.data.dyck import dyck as dyck
from unspool.lab.data.elman_language import ELMAN_CLASSES as ELMAN_CLASSES
from unspool.lab.data.elman_language import ELMAN_SENTENCE as ELMAN_SENTENCE
from unspool.lab.data.elman_language import ELMAN_WORDS as ELMAN_WORDS
from unspool.lab.data.elman_language import NO_ROLE as NO_ROLE
from unspool.lab.data.elman_language import OBJECT as OBJECT
from unspool.lab.data.elman_language import SUBJECT as SUBJECT
from unspool.lab.data.elman_language import ElmanText as ElmanText
from unspool.lab.data.elman_language import elman_language as elman_language
from unspool.lab.data.flip_flop import flip_flop as flip_flop
from unspool.lab.data.formulas import formulas as formulas
from unspool.lab.data.intents import chinese_commands as chinese_commands
from unspool.lab.data.intents import order_intents as order_intents
from unspool.lab.data.linear_gaussian import linear_gaussian as linear_gaussian
from unspool.lab.data.lorenz import lorenz as lorenz
from unspool.lab.data.pairs import dates as dates
from unspool.lab.data.pairs import reversal as reversal
from unspool.lab.data.reference import encode as encode
from unspool.lab.data.reference import python_reference as python_reference
from unspool.lab.data.reference import windows as windows
from unspool.lab.data.state_tracking import counting as counting
from unspool.lab.data.state_tracking import parity as parity
from unspool.lab.data.state_tracking import permutations as permutations
from unspool.lab.data.state_tracking import word_problem as word_problem
from unspool.lab.data.teacher import teacher as teacher
from unspool.lab.data.two_scales import two_scales as two_scales
