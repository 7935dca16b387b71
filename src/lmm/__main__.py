"""`python -m lmm` is `lmm`."""

import sys

from lmm.cli.main import main

sys.exit(main())
