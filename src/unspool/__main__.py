"""python -m unspool: the command line."""

from unspool.cli.main import main

if __name__ == "__main__":
    main()
