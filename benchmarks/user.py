"""Is a user's own cell as fast as a built-in one, and how much faster than a torch loop?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "user", *sys.argv[1:]])
