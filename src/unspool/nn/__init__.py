"""torch modules: cells over time, and the ways in which they compose."""

from unspool.decoding.sequences import Decoded as Decoded
from unspool.nn import init as init
from unspool.nn import operator as _operator  # noqa: F401 - registers the operators
from unspool.nn.attention import DecoderTransformer as DecoderTransformer
from unspool.nn.bidirectional import Bidirectional as Bidirectional
from unspool.nn.crf import LinearChainCRF as LinearChainCRF
from unspool.nn.equilibrium import Equilibrium as Equilibrium
from unspool.nn.layer import Layer as Layer
from unspool.nn.opinions import linear_pool as linear_pool
from unspool.nn.opinions import log_pool as log_pool
from unspool.nn.pooling import AttentionPooling as AttentionPooling
from unspool.nn.pooling import LastState as LastState
from unspool.nn.pooling import MaxPooling as MaxPooling
from unspool.nn.pooling import MeanPooling as MeanPooling
from unspool.nn.pooling import Pooling as Pooling
from unspool.nn.pooling import make_pooling as make_pooling
from unspool.nn.recurrent import Recurrent as Recurrent
from unspool.nn.rnn import GRU as GRU
from unspool.nn.rnn import LSTM as LSTM
from unspool.nn.rnn import RNN as RNN
from unspool.nn.seq2seq import Seq2Seq as Seq2Seq
from unspool.nn.stack import Stack as Stack
from unspool.nn.time_delay import TimeDelay as TimeDelay
from unspool.nn.unfold import Unfolded as Unfolded
