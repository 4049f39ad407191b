"""How it is learned: pieces for a loop of your own, and the loop that `unspool.train` runs."""

from unspool.learning.averaging import Average as Average
from unspool.learning.bptt import TruncatedBPTT as TruncatedBPTT
from unspool.learning.bptt import detach as detach
from unspool.learning.clipping import clip_gradients as clip_gradients
from unspool.learning.clipping import gradient_norm as gradient_norm
from unspool.learning.finder import find_rate as find_rate
from unspool.learning.finder import restored as restored
from unspool.learning.forcing import Forcing as Forcing
from unspool.learning.forcing import free_run as free_run
from unspool.learning.gates import double_closed as double_closed
from unspool.learning.gates import gate_penalty as gate_penalty
from unspool.learning.gates import neighbouring_gates as neighbouring_gates
from unspool.learning.layer_dropout import best_dropout as best_dropout
from unspool.learning.optimisers import make_optimiser as make_optimiser
from unspool.learning.penalties import activation_penalty as activation_penalty
from unspool.learning.penalties import temporal_penalty as temporal_penalty
from unspool.learning.predictive_coding import PredictiveCoding as PredictiveCoding
from unspool.learning.predictive_coding import alignment as alignment
from unspool.learning.read_out import linear_cross_entropy as linear_cross_entropy
from unspool.learning.schedules import Progress as Progress
from unspool.learning.schedules import make_schedule as make_schedule
