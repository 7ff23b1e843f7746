"""Telling people of conditions that begin and end: a DAG that looks at every pipeline, and the notifiers it calls."""
