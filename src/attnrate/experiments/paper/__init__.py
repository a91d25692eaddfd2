"""The experiments: one file per figure, table or question of the paper, found by being here.

A file holds one experiment from top to bottom: what the paper says, the settings of both presets,
the jobs, the conclusions and the figures. It defines an `Experiment` whose name is unique.
"""
