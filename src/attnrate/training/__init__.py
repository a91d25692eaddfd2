"""Models trained over data sets of real images and sentences, in epochs that can be resumed.

`train.py`: the command `attnrate train`, which trains one model in a folder of its own.
`images.py`, `sentences.py`: training on CIFAR-10 and on English-German pairs, and judging models.
`feed.py`: batches of both, made by a thread ahead of the model.
`epochs.py`: training over a feed by a recipe, an epoch at a time, with AdamW or Muon (`muon.py`).
`history.py`: what epochs came to, as a result, a table and a figure.
`checkpoint.py`: the state after each epoch, and the model of a finished run, in files.
`machine.py`: memory, threads and precision.
"""
