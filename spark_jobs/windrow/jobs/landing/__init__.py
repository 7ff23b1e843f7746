"""What landing is made of: a batch with its account, quarantined records judged again, lost batches landed again."""
