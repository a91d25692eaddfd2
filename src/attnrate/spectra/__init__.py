"""What a trained model's attention uses: queries and keys out of a model, and their spectra."""
