"""How fast, against whom: contestants compared, then timed in turns, into a report."""

from unspool.lab.bench.bench import QUESTIONS as QUESTIONS
from unspool.lab.bench.bench import run as run
from unspool.lab.bench.cases import Point as Point
from unspool.lab.bench.report import Report as Report
from unspool.lab.bench.settings import PEERS as PEERS
from unspool.lab.bench.settings import Settings as Settings
