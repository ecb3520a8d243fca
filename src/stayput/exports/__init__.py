"""A trained model as files for others: safetensors, and a folder as Hugging Face lays it out. Never trains."""
