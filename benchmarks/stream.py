"""How long does one step take from Python at batch 1, against ONNX Runtime and torch?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "stream", *sys.argv[1:]])
