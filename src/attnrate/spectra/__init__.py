"""What a trained model's attention uses: queries and keys out of a model, and their spectra.

- `capture`: attention layers (sites) and their calls; `adapters/`: where families of models have
  them, and how they are watched while the model runs
- `batches`: inputs from Python, and a model run on them; `read` and `images`: inputs from files
- `load`: a model from a folder or a hub; `checkpoint`: the files of such a folder
- `profile`: all of a model's spectra, by `estimate` (spectra from second moments) and `cut` (what
  smaller heads do to attention); `result` is what it gives, summed up by the numbers of `measures`
- `advise`: the head sizes that would do; `weights_only`: spectra of W_QᵀW_K without any input
"""
