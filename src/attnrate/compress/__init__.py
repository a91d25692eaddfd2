"""Smaller heads for real: cutting a trained model's heads, repairing them, and saving the model."""
