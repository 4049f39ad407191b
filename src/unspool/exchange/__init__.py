"""Other people's forms of the same models, both ways."""

from unspool.exchange.varma import LinearSystem as LinearSystem
from unspool.exchange.varma import Varma as Varma
from unspool.exchange.varma import from_varma as from_varma
from unspool.exchange.varma import layer_of as layer_of
from unspool.exchange.varma import system_of as system_of
from unspool.exchange.varma import to_varma as to_varma
