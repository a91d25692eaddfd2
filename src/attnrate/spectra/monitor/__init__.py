"""Watching attention while a model is trained: ranks over steps, in what the user logs to.

- `monitor`: the monitor, for plain loops; `options`: its settings; `schedule`: at which steps
- `door`: watching forward passes that somebody else runs; `processes`: which process does it
- `record`: from moments to the numbers of a step; `drawn`: these numbers over steps
- `loggers`: CSV, TensorBoard, Weights & Biases, anything that takes a dictionary
- `trainer`, `lightning`: callbacks for transformers.Trainer and for Lightning
"""
