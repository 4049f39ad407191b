"""Do finished rows of a ragged batch cost nothing?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "ragged", *sys.argv[1:]])
