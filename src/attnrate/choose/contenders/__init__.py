"""The contenders of the race, one a file; a file is found by being here.

Causal models (recurrent, convolutional, state space) stay causal on panels as well, as in the
paper; Transformers see the whole sequence.
"""
