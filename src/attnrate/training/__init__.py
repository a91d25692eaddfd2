"""Models trained over data sets of real images and sentences, in epochs that can be resumed.

`train.py` is the command `attnrate train`: one model in a folder of its own. `images.py` and
`sentences.py` train on CIFAR-10 and on English-German pairs, and say how good a model is.
Below them: `feed.py` makes batches, `epochs.py` trains over them with Muon (`muon.py`) or AdamW,
`checkpoint.py` keeps the state after each epoch, `kept.py` a finished model, and `epochs_kept.py`
the epochs of jobs whose results are not stored yet.
"""
