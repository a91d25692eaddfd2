"""The folder of these tests can be imported from: they share families of couplings and spectra."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
