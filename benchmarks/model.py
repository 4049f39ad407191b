"""How fast is an update of a whole language model, from tokens to new weights, and how much memory does it take?

Options are those of `unspool bench`: --quick, --compile, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "model", *sys.argv[1:]])
