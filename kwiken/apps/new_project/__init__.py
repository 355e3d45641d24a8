"""New project: the files of a first service, from templates."""
