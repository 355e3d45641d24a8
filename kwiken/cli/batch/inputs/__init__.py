"""Inputs of batch verbs: files of logs, event logs of a history server, documents of jobs."""
