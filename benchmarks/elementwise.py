"""Is a recurrence without a product with the state as fast as its products with x?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "elementwise", *sys.argv[1:]])
