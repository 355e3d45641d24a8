"""Service definitions: a DAG of stages with handlers, its document formats and its drawings."""
