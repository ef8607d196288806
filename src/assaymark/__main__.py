"""`python -m assaymark` is the command line."""

import sys

from assaymark.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
