"""What does a call cost when there is next to nothing to compute?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "overhead", *sys.argv[1:]])
