"""Inputs of a model from people and their files, as batches that `profile` runs a model on.

- `kinds`: the types of what can be given; `given`: what of it becomes batches in which way
- `running`: a file of running text, cut into pieces
- `texts`: strings, chats and rows of a dataset, each an input of its own; `rows`: their columns
- `tables`: files of such rows: JSON lines, CSV, Parquet
- `arrays`: an .npz file; `images`, `sound`: folders; `decoders`: what a decoder reads beside these
- `batched`: the batches themselves; `checks`: what a model cannot take is refused
"""
