"""``python -m antecede`` is the command ``antecede``."""

import sys

from antecede.cli.main import main

sys.exit(main())
