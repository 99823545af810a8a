"""What variants do to transcripts: the parts of the stage variant_consequences."""
