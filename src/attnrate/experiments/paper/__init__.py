"""The experiments: one file a figure, table or question of the paper, found by being here.

A file holds one experiment from top to bottom: what the paper says, the settings of both presets,
the jobs, what is concluded, the figures; and an `Experiment`, whose name no other has.
"""
