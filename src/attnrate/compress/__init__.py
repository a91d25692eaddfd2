"""Smaller heads for real: queries, keys and values cut out of a model's weights, and repaired.

- `projections`: where a layer makes queries, keys, values and its output, found by running
- `held`: a call of attention that is kept, to be computed again; `moments`: what the closed forms
  need, summed in one pass
- `content`: cutting queries and keys by closed forms; `values`: cutting values and outputs
- `repair`: gradient steps against the outputs of the original heads, layer by layer; `distil`: of
  all layers at once against the output of the original model
- `calibration`: what is known of a model's layers from inputs; `choice`: the closed form that
  changes it least; `run`: its cut from inputs on; `fold`: the thin heads put into the model
- `rotary`: pairs of rotary heads, by elimination with a refit, from `rotary_moments`;
  `rotary_values`, `rotary_repair`; `export_llama`: stock Llama files
- `sound`: what is refused of a model as a whole; `rebuilt`: whether layers put together from the
  parts that were found are the model's own
- `sizes`: what was asked for, `advised` by an advice or `planned` from measurements: `cutters` make
  layers of any size, `allocate` shares a budget out, `curves` keep what was measured
- `compress`: the one call over all of it, with `trial` (inputs held out) and `rotary_run`;
  `layers`: which layers can be cut; `how_far`: what its parts say of themselves while they work;
  `resume`: what is finished, kept in a folder; `trained`: data and scores of models of `train`
- `result`: what it gives; `saved` and `opened`: its folders, `written`: what their formats share;
  `export_onnx`: files of ONNX, with `onnx_graph`
- `measured`: how good a model is before and after (`quality`), how long it takes (`timing`), and
  its `rivals`, keys (and values) in 8 or 4 bits in a cache of their own (`quantised`); `verdict`:
  why a cut does not pay; `sentences`: what was measured in words; `drawn`: as a picture
- `modules/`: thin attention of families of models, one file each
"""
