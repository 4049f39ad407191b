"""How much faster are layers of a stack at once than one after the other?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "wavefront", *sys.argv[1:]])
