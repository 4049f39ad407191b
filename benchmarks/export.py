"""How long does one step take in exported C, beside its products alone, and how large are the files?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "export", *sys.argv[1:]])
