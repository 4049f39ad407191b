"""python -m unspool: the command line."""

from unspool_command import main

if __name__ == "__main__":
    main()
