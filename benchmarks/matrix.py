"""How fast are cells whose state is a matrix, against a loop in torch and a scan of JAX?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "matrix", *sys.argv[1:]])
