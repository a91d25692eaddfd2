"""Bad input and faults in numbers: argument lists, broken files, kills, full and read-only disks.

    python benchmarks/faults.py [arguments] [files] [kills] [disks] [--quick] [--seed N]

Every case is determined by its part, its number and the seed. A case that fails is printed with the
command that runs it again (`--only N`). No case may end in a traceback or with an exit code other
than 0, 1, 2 and 130, lose finished work, leave a process running, or change a file of the user.
Commands run in new folders with a cache of their own; none of them can reach a network.
"""

import argparse
import os
import sys

if __name__ == "__main__":
    # behind Python's own folders: profile.py here must not hide Python's module
    sys.path.append(sys.path.pop(0))

COUNTS = {"arguments": 10_000, "files": 500, "kills": 100, "disks": 1}
QUICK = {"arguments": 300, "files": 60, "kills": 10, "disks": 1}

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("parts", nargs="*", help=f"of {', '.join(COUNTS)}; all")
parser.add_argument("--quick", action="store_true", help="a few cases of each")
parser.add_argument("--seed", type=int, default=17)
parser.add_argument("--only", type=int, help="run only the case with this number, of one part")
parser.add_argument(
    "--count", type=int, help="number of cases per part (default: that of the part)"
)
parser.add_argument("--json", metavar="FILE", help="also write the records to this file")
parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
ARGUMENTS = parser.parse_args()
# set before numpy is imported, when the linear algebra reads it
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import json  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import asdict  # noqa: E402
from pathlib import Path  # noqa: E402

import _report  # noqa: E402
import attnrate  # noqa: E402
from faults_parts import scene  # noqa: E402
from faults_parts.calls import AFRESH, harmless, limit_memory, run_in_child  # noqa: E402
from faults_parts.tally import FAULTS, Seen, from_line, print_table  # noqa: E402


def isolated(place: Path) -> None:
    """Hide home, cache, network and package clients, except what is in the folder."""
    for name in ("home", "cache", "programs", "tmp"):
        (place / name).mkdir(exist_ok=True)
        (place / name).chmod(0o777)
    os.environ |= {
        "HOME": str(place / "home"),
        "ATTNRATE_CACHE": str(place / "cache"),
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(place / "home"),
        "MPLCONFIGDIR": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "PATH": str(place / "programs"),
        "PIP_NO_INDEX": "1",
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PYTHONPATH": os.pathsep.join([str(Path(attnrate.__file__).parents[1])]),
    }


def in_process(part: str, place: Path, count: int, tell: Callable[[Seen], None]) -> list[str]:
    """Run the parts that call commands within a process, in a child that may be killed."""
    first, total = (
        (ARGUMENTS.only, ARGUMENTS.only + 1) if ARGUMENTS.only is not None else (0, count)
    )
    command, left_out = harmless([sys.executable, os.path.abspath(__file__)])
    command += [f"--seed={ARGUMENTS.seed}", "--child", part, str(place), str(total)]
    place.chmod(0o777)
    (place / part).mkdir(exist_ok=True)
    (place / part).chmod(0o777)

    def lost(number: int, code: int) -> None:
        fault = "over time" if code == -9 else "crashed"
        tell(Seen(part, "?", first + number, "the process ended", code, (fault,)))

    def again(line: str) -> None:
        tell(from_line(line))

    isolated(place)
    run_in_child(command, total - first, again, lost, first)
    return [] if left_out is None else [f"{part}: {left_out}"]


def child(part: str, place: Path, total: int, first: int) -> int:
    """Call commands in this process and print one line per case."""
    limit_memory()
    os.umask(0o022)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is written to the descriptor itself must not pass for a line of ours
    devices = os.geteuid() != 0
    if part == "arguments":
        from faults_parts import arguments

        cases = arguments.run_cases(place / part, ARGUMENTS.seed, first, total, devices)
    else:
        from faults_parts import broken

        cases = broken.run_cases(place / part, ARGUMENTS.seed, first, total)
    try:
        for seen in cases:
            print(seen.to_line(), file=out, flush=True)
            if "over time" in seen.faults:
                os._exit(AFRESH)
    except Exception:
        traceback.print_exc()
        os._exit(70)
    return 0


def again(seen: Seen) -> str:
    return f"python benchmarks/faults.py {seen.part} --seed {ARGUMENTS.seed} --only {seen.number}"


def main() -> int:
    parts = ARGUMENTS.parts or [*COUNTS]
    unknown = [part for part in parts if part not in COUNTS]
    if unknown or (ARGUMENTS.only is not None and len(parts) != 1):
        parser.error(f"parts are {', '.join(COUNTS)}; --only needs one of them: got {parts}")
    stopped = False
    every: list[Seen] = []
    left_out: list[str] = []

    def tell(seen: Seen) -> None:
        every.append(seen)
        if seen.faults:
            print(f"  {', '.join(seen.faults)} ({seen.group}, code {seen.code}): {seen.what[:300]}")
            print(f"    again: {again(seen)}")
            if seen.said:
                print("    " + "\n    ".join(seen.said.strip().splitlines()[-6:]), flush=True)
        elif ARGUMENTS.only is not None:
            print(f"  {seen.group}, code {seen.code}: {seen.what}")

    with tempfile.TemporaryDirectory(prefix="faults-") as made:
        place = Path(made)
        print(f"making tiny models, inputs and specs in {place.name} ...", flush=True)
        scene.make(place / "scene")
        for part in parts:
            begin = time.monotonic()
            number = len(every)
            if stopped:
                break
            count = ARGUMENTS.count or (QUICK if ARGUMENTS.quick else COUNTS)[part]
            try:
                if part in ("arguments", "files"):
                    left_out += in_process(part, place, count, tell)
                elif part == "kills":
                    from faults_parts import kills

                    isolated(place)
                    left_out += kills.run_all(place, count, ARGUMENTS.seed, ARGUMENTS.only, tell)
                else:
                    from faults_parts import disks

                    isolated(place)
                    left_out += disks.run_all(place, ARGUMENTS.only, tell)
            except KeyboardInterrupt:
                stopped = True
                left_out.append(f"{part}: what was to come after {len(every) - number} cases")
            took = time.monotonic() - begin
            print(f"{part}: {len(every) - number} cases in {took:.0f} s", flush=True)
    print()
    print_table(every)
    print()
    for line in left_out:
        print(f"not tried: {line}")
    bad = {fault: sum(fault in seen.faults for seen in every) for fault in FAULTS}
    met = _report.all_required(
        {f"{fault}: {count} of {len(every)}": not count for fault, count in bad.items()}
    )
    machine = _report.machine("torch", seed=ARGUMENTS.seed)
    if ARGUMENTS.json:
        results = {"machine": machine, "parts": parts, "cases": [asdict(seen) for seen in every]}
        Path(ARGUMENTS.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    if ARGUMENTS.child:
        which, where, until, begin = ARGUMENTS.child
        sys.exit(child(which, Path(where), int(until), int(begin)))
    sys.exit(main())
