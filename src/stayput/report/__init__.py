"""What people look at: curves, pictures of partitions, the HTML report. Reads runs, never trains."""
