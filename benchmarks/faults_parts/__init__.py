"""The parts of benchmarks/faults.py: arguments, files, kills and disks, and what they share."""
