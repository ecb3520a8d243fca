"""One file for each form that the database has had."""
