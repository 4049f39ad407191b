"""The field's claims and ours, each measured again."""
