"""Audits: are the tables whole, are publications what their plans make, do live rows and ledger equal a rebuild?"""
