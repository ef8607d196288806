"""`python -m evalstone` is the command line."""

import sys

from evalstone.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
