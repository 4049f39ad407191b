"""How fast are training and inference at 18 points, against torch.nn, JAX and ONNX Runtime?

Options are those of `unspool bench`: --quick, --sizes 16,300,40,96, --json FILE, …
"""

import sys

from unspool.cli.main import main

if __name__ == "__main__":
    main(["bench", "--only", "grid", *sys.argv[1:]])
