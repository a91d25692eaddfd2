"""Test whether what attnrate claims is true: `certify.py pod` and `certify.py decay`, or both.

Options after the name of a part belong to that part; `certify.py pod --help` lists them.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# behind Python's own folders: profile.py here must not hide Python's module
sys.path.append(sys.path.pop(0))
sys.path.append(str(HERE.parent / "tests" / "theory"))
# set before numpy is imported, when the linear algebra reads it
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import _certify_decay  # noqa: E402
import _certify_pod  # noqa: E402

PARTS = {"pod": _certify_pod.main, "decay": _certify_decay.main}


def main(arguments: list[str]) -> int:
    """Run the named part with its options, or all parts; return 0 if everything passes."""
    if arguments and arguments[0] not in PARTS:
        print(f"certify.py: parts are {' and '.join(PARTS)}: got {arguments[0]!r}", file=sys.stderr)
        return 2
    chosen = arguments[:1] or list(PARTS)
    codes = []
    for name in chosen:
        print(f"== {name}")
        codes.append(PARTS[name](arguments[1:]))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
