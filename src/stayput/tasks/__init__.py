"""Tasks: model, loss and metrics together, and the table of named ones."""
