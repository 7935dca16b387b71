"""Run the command `lmm` with `python -m lmm`."""

import sys

from lmm.cli.main import main

sys.exit(main())
