"""What a report page says about the outputs of a run: one file a finding."""
