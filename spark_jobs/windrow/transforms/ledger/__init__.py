"""The late ledger: what a rebuild at the newest pins would change. Rules about rows and passes, without reading any."""
