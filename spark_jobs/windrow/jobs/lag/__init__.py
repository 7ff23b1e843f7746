"""The job lag_impact: what lag would have cost, from landed records to a page."""
