"""Generated data: the tasks on which recurrent networks are compared, in NumPy and reproducible by a seed.

Sequences of numbers are (time, batch, features) in float32, tokens (time, batch) in int64, targets have no time axis
unless there is one per step. `unspool lab data NAME --out FILE` writes a file of any of them.
"""

from unspool.lab.data.adding import adding as adding
from unspool.lab.data.elman_language import ELMAN_CLASSES as ELMAN_CLASSES
from unspool.lab.data.elman_language import ELMAN_SENTENCE as ELMAN_SENTENCE
from unspool.lab.data.elman_language import ELMAN_WORDS as ELMAN_WORDS
from unspool.lab.data.elman_language import NO_ROLE as NO_ROLE
from unspool.lab.data.elman_language import OBJECT as OBJECT
from unspool.lab.data.elman_language import SUBJECT as SUBJECT
from unspool.lab.data.elman_language import ElmanText as ElmanText
from unspool.lab.data.elman_language import elman_language as elman_language
