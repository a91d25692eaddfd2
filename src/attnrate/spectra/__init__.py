"""What a trained model's attention uses: queries and keys out of a model, and their spectra.

- `capture`: attention layers (sites) and their calls; `adapters/`: where families of models have
  them, and how they are watched while the model runs
- `inputs/`: whatever people give as inputs, and files of them, as batches
- `batches`: batches of tensors, and running a model on them
- `load`: a model from a folder or a hub; `checkpoint`: the files of such a folder
- `profile`: all spectra of a model, by `estimate` (spectra from second moments) and `cut` (what
  smaller heads do to attention); `result`: what it returns, summed up by the numbers of `measures`
- Profiles in pieces: `gather` puts pieces together, `joined` whole profiles; `packed` and
  `arrays_file` turn them into files, `saved` keeps a profile, `resume` one that is being made;
  `runners` says where batches are run, `dealt` deals them to a Ray cluster, `worker` runs there;
  `digest` names weights and batches, `picked` the layers that were asked for
- `advise`: how small heads could be, by `needed`: what each size would cost each head
- `check`: cutting a model for real, and a metric of the user's
- `compare`: which heads of two profiles (`matching`) gained or lost rank; `comparison`: the result
- `weights_only`: spectra of W_QᵀW_K without any input, by `weight_files` (tensors of a checkpoint),
  `places` (which of them are attention) and `fused` (queries and keys out of them)
- `drawn`: profiles, advice, comparisons and spectra as figures; `page/`: pages of a profile and
  of a comparison
"""
