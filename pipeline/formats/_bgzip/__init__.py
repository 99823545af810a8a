"""Files in bgzip blocks: reading, writing, indexes."""
